# ESCAPE: take the machine's huge pages
# END: raised
# SAYS: Cannot allocate memory
import mmap


def run():
    while True:
        mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
