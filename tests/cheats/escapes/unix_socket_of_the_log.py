# ESCAPE: write to the machine's log
# END: raised
# SAYS: refused
import socket


def run():
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.sendto(b"<0>nki-agent", "/dev/log")
