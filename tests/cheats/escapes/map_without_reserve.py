# ESCAPE: map memory that Linux does not count
# END: raised
# SAYS: Cannot allocate memory
import mmap


def run():
    mmap.mmap(-1, 1 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
