# ESCAPE: move another process's memory
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(279, 239), 1, 0, 0, 0, 0, 0)
