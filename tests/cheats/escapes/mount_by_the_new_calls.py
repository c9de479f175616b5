# ESCAPE: mount by the newer calls
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(430, 0, 0)
