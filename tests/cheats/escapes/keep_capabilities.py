# ESCAPE: keep its rights over a change of user
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(157, 167), 8, 1, 0, 0, 0)
