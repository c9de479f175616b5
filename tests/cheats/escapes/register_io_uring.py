# ESCAPE: register descriptors with a ring
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(427, 0, 0, 0, 0)
