# ESCAPE: outlive the parent
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(157, 167), 1, 0, 0, 0, 0)
