# ESCAPE: talk to devices past Linux
# END: raised
# SAYS: refused
# MACHINE: x86_64
from probing import call


def run():
    call(172, 3)
