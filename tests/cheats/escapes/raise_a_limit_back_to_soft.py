# ESCAPE: raise a limit back to soft
# END: raised
# SAYS: raise
import resource


def run():
    resource.setrlimit(resource.RLIMIT_CPU, (5, 6))
