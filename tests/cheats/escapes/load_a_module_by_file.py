# ESCAPE: load code into Linux from a descriptor
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(313, 273), 0, 0, 0)
