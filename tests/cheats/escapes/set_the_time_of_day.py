# ESCAPE: set the clock by settimeofday
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(164, 170), 0, 0)
