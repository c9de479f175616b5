# ESCAPE: mount
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(165, 40), 0, 0, 0, 0, 0)
