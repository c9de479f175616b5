# ESCAPE: read the memory of its own thread in /proc
# END: raised
# SAYS: refused


def run():
    open("/proc/thread-self/mem", "rb").read(1)
