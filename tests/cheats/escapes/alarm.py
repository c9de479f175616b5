# ESCAPE: be woken by an alarm after the end of its time
# END: raised
# SAYS: refused
# MACHINE: x86_64
from probing import call


def run():
    call(37, 1)
