# ESCAPE: share memory until there is none
# END: raised
# SAYS: Cannot allocate memory
import mmap


def run():
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 64 << 20))
