# ESCAPE: segfault
# END: killed
# SAYS: SIGSEGV
import ctypes


def run():
    ctypes.string_at(0)
