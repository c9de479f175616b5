# ESCAPE: clone3
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(435, 0, 0)
