# ESCAPE: have Linux take another process's memory
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(448, 0, 0)
