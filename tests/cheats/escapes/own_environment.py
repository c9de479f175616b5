# ESCAPE: own environment
# END: raised
# SAYS: refused


def run():
    open("/proc/self/environ").read()
