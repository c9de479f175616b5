# ESCAPE: lock memory
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(149, 228), 0, 4096)
