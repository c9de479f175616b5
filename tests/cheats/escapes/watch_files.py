# ESCAPE: watch files
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(294, 26), 0)
