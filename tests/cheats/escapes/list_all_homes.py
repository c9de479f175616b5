# ESCAPE: list /home
# END: raised
# SAYS: refused|No such file
import os


def run():
    os.listdir("/home")
