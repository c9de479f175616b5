# ESCAPE: change the root by pivot_root
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(155, 41), 0, 0)
