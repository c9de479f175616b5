# ESCAPE: take a file system away
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(166, 39), 0, 2)
