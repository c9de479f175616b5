# ESCAPE: a call through x32
# END: killed
# SAYS: SIGSYS
# MACHINE: x86_64
from probing import call


def run():
    call(0x40000000 | 39)
