# ESCAPE: become the parent of orphans
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(157, 167), 36, 1, 0, 0, 0)
