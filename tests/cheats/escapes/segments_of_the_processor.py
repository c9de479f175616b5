# ESCAPE: change the processor's tables
# END: raised
# SAYS: refused
# MACHINE: x86_64
from probing import call


def run():
    call(154, 1, 0, 0)
