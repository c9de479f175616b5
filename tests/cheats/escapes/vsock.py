# ESCAPE: reach the host of a virtual machine
# END: raised
# SAYS: refused
import socket


def run():
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
