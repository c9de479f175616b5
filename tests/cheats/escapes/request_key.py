# ESCAPE: ask for a key that Linux holds
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(249, 218), 0, 0, 0, -3)
