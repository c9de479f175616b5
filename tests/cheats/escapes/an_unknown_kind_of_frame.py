# ESCAPE: an unknown kind of frame
# END: exited
# SAYS: without a result
import os
from probing import descriptors


def run():
    os.write(max(descriptors()), b"?" + bytes(16))
    os._exit(0)
