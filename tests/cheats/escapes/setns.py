# ESCAPE: setns
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(308, 268), 0, 0)
