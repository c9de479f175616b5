# ESCAPE: pidfd_open
# END: raised
# SAYS: not implemented
import os
from probing import call


def run():
    call(434, os.getppid(), 0)
