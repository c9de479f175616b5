# ESCAPE: fork without end
# END: raised
# SAYS: refused
import os


def run():
    while True:
        os.fork()
