# ESCAPE: put its memory into a pipe
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(278, 75), 0, 0, 0, 0)
