# ESCAPE: become a member of root's group
# END: raised
# SAYS: refused
import os


def run():
    os.setgid(0)
