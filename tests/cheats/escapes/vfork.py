# ESCAPE: vfork
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(58, 220))
