# ESCAPE: copy files into one another within Linux
# END: raised
# SAYS: refused
import os
from probing import descriptors


def run():
    os.sendfile(max(descriptors()), 0, 0, 1 << 30)
