# ESCAPE: a forged failure of the machine
# END: exited
# SAYS: status 70
import os
from probing import descriptors


def run():
    os.write(max(descriptors()), b"Fno memory")
    os._exit(70)
