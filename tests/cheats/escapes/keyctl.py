# ESCAPE: keyctl
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(250, 219), 0, -3)
