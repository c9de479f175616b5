# ESCAPE: ptrace
# END: raised
# SAYS: refused
import os
from probing import call, of


def run():
    call(of(101, 117), 16, os.getppid(), 0, 0)
