# ESCAPE: a descriptor opened anew
# END: raised
# SAYS: refused
from probing import descriptors


def run():
    open(f"/proc/self/fd/{max(descriptors())}", "w")
