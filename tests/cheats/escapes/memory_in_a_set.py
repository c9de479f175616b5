# ESCAPE: names that are kept for ever
# END: memory
# SAYS: bytes of memory
import sys


def run():
    kept, number = [], 0
    while True:
        number += 1
        kept.append(sys.intern(str(number) + "x" * (1 << 20)))
