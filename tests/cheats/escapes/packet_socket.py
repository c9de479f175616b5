# ESCAPE: listen to the network card
# END: raised
# SAYS: refused
import socket


def run():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
