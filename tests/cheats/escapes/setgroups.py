# ESCAPE: setgroups
# END: raised
# SAYS: refused
import os


def run():
    os.setgroups([0])
