# ESCAPE: abstract socket
# END: raised
# SAYS: refused
import socket


def run():
    socket.socket(socket.AF_UNIX).connect("\0nki")
