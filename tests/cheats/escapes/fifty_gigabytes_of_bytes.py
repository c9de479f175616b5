# ESCAPE: 50 GB of bytes
# END: memory
# SAYS: bytes of memory


def run():
    bytearray(50 << 30)
