# ESCAPE: tgkill
# END: raised
# SAYS: refused
import os
from probing import call, of


def run():
    call(of(234, 131), os.getppid(), os.getppid(), 9)
