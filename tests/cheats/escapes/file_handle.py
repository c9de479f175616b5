# ESCAPE: make a handle that opens a file later
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(303, 264), -100, 0, 0, 0, 0)
