# ESCAPE: touch
# END: raised
# SAYS: refused
import os
from probing import PACKAGE


def run():
    os.utime(PACKAGE + "/__init__.py")
