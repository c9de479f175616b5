# ESCAPE: permit every process to trace it
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(157, 167), 0x59616D61, -1, 0, 0, 0)
