# ESCAPE: send packets of its own making
# END: raised
# SAYS: refused
import socket


def run():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
