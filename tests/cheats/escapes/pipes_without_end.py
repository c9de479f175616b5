# ESCAPE: use up the machine's pipes
# END: raised
# SAYS: refused
import os


def run():
    kept = []
    while True:
        kept.append(os.pipe())
