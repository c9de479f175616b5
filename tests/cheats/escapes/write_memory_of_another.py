# ESCAPE: write another process's memory
# END: raised
# SAYS: refused
import os
from probing import call, of


def run():
    call(of(311, 271), os.getppid(), 0, 0, 0, 0, 0)
