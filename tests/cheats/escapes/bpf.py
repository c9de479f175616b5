# ESCAPE: bpf
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(321, 280), 0, 0, 0)
