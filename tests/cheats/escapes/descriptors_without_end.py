# ESCAPE: use up the machine's open files
# END: raised
# SAYS: refused|Too many open files
import os


def run():
    kept = []
    while True:
        kept.append(os.open(os.__file__, os.O_RDONLY))
