# ESCAPE: UDP socket
# END: raised
# SAYS: refused
import socket


def run():
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
