# ESCAPE: start another Linux
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(246, 104), 0, 0, 0, 0)
