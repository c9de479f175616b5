# ESCAPE: memory that Linux itself may not look into
# END: raised
# SAYS: not implemented
from probing import call


def run():
    call(447, 0)
