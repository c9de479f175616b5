# ESCAPE: move the borders of its own memory
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(157, 167), 35, 1, 0, 0, 0)
