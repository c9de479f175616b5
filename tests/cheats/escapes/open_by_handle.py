# ESCAPE: open by handle
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(304, 265), -100, 0, 0)
