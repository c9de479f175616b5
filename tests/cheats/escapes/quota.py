# ESCAPE: change the quotas of a disk
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(179, 60), 0, 0, 0, 0)
