# ESCAPE: own maps
# END: raised
# SAYS: refused


def run():
    open("/proc/self/maps").read()
