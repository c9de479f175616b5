# ESCAPE: perf_event_open
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(298, 241), 0, 0, 0, 0, 0)
