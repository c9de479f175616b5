# ESCAPE: TCP socket
# END: raised
# SAYS: refused
import socket


def run():
    socket.socket(socket.AF_INET, socket.SOCK_STREAM)
