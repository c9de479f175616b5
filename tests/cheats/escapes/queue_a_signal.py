# ESCAPE: queue a signal
# END: raised
# SAYS: refused
import os
from probing import call, of


def run():
    call(of(129, 138), os.getppid(), 9, 0)
