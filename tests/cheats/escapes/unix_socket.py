# ESCAPE: Unix socket
# END: raised
# SAYS: refused
import socket


def run():
    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
