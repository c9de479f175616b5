# ESCAPE: another filter
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(317, 277), 1, 0, 0)
