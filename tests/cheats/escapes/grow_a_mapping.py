# ESCAPE: grow a mapping past the limit
# END: raised
# SAYS: Cannot allocate memory
import mmap


def run():
    mmap.mmap(-1, 4096).resize(1 << 40)
