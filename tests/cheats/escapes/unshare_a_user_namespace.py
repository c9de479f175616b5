# ESCAPE: unshare a user namespace
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(272, 97), 0x10000000)
