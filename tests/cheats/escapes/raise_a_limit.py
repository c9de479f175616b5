# ESCAPE: raise a limit
# END: raised
# SAYS: raise maximum
import resource


def run():
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
