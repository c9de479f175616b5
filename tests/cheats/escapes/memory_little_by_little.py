# ESCAPE: memory little by little
# END: memory
# SAYS: bytes of memory


def run():
    kept = []
    while True:
        kept.append(bytes(8 << 20))
