# ESCAPE: rename the machine
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(170, 161), 0, 0)
