# ESCAPE: look a name up
# END: raised
# SAYS: gaierror|Permission
import socket


def run():
    socket.getaddrinfo(b"localhost", 80)
