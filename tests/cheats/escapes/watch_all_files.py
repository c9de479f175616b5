# ESCAPE: be told of every file that anybody opens
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(300, 262), 0, 0)
