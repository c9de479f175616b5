# ESCAPE: become traceable
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(157, 167), 4, 1, 0, 0, 0)
