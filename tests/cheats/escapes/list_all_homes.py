# ESCAPE: list /home
# END: raised
# SAYS: refused
import os


def run():
    os.listdir("/home")
