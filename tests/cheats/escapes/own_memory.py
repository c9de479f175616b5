# ESCAPE: own memory
# END: raised
# SAYS: refused


def run():
    open("/proc/self/mem", "r+b")
