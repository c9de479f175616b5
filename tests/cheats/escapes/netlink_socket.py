# ESCAPE: netlink socket
# END: raised
# SAYS: refused
import socket


def run():
    socket.socket(16, socket.SOCK_RAW, 0)
