# ESCAPE: put other rules on
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(446, 0, 0)
