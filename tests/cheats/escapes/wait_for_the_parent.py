# ESCAPE: adopt the end of others
# END: raised
# SAYS: refused|No child
import os


def run():
    os.waitpid(-1, 0)
