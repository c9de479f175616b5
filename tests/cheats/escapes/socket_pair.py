# ESCAPE: socket pair
# END: raised
# SAYS: refused
import socket


def run():
    socket.socketpair()
