# ESCAPE: list the current folder
# END: raised
# SAYS: refused
import os


def run():
    os.listdir(".")
