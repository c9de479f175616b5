# ESCAPE: hold more descriptors than it may
# END: raised
# SAYS: refused|raise maximum
import resource


def run():
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
