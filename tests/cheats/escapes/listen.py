# ESCAPE: wait for somebody to connect
# END: raised
# SAYS: refused
import socket


def run():
    server = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    server.bind(("::", 0))
    server.listen()
