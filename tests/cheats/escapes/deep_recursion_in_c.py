# ESCAPE: deep recursion in C
# END: killed
# SAYS: SIGSEGV
import sys


def run():
    sys.setrecursionlimit(1 << 30)

    def key(x):
        return sorted([x], key=key)

    key(0)
