# ESCAPE: fork by the number of the call
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(56, 220), 17, 0, 0, 0, 0)
