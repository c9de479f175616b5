# ESCAPE: advise Linux about another process's memory
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(440, 0, 0, 0, 0, 0)
