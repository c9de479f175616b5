# ESCAPE: read another process's memory
# END: raised
# SAYS: refused
import os
from probing import call, of


def run():
    call(of(310, 270), os.getppid(), 0, 0, 0, 0, 0)
