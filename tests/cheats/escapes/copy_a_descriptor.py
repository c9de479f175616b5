# ESCAPE: put the result's pipe in the place of another descriptor
# END: raised
# SAYS: refused
import os
from probing import descriptors


def run():
    os.dup2(max(descriptors()), 0)
