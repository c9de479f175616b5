# ESCAPE: allow itself new privileges
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(157, 167), 38, 0, 0, 0, 0)
