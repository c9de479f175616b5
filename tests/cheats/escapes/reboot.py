# ESCAPE: restart the machine by a call
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(169, 142), 0xFEE1DEAD, 672274793, 0x1234567, 0)
