# ESCAPE: make rules of its own that allow more
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(444, 0, 0, 1)
