# ESCAPE: map a terabyte
# END: raised
# SAYS: Cannot allocate memory
import mmap


def run():
    mmap.mmap(-1, 1 << 40)
