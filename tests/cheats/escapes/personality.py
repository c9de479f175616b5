# ESCAPE: personality
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(135, 92), 0x0040000)
