# ESCAPE: learn about another process's memory by kcmp
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(312, 272), 1, 1, 0, 0, 0)
