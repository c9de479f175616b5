# ESCAPE: move bytes between descriptors within Linux
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(275, 76), 0, 0, 0, 0, 1, 0)
