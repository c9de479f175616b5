# ESCAPE: enter a ring that is open
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(426, 0, 0, 0, 0)
