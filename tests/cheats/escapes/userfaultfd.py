# ESCAPE: userfaultfd
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(323, 282), 0)
