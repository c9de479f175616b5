# ESCAPE: chown
# END: raised
# SAYS: refused
import os
from probing import PACKAGE


def run():
    os.chown(PACKAGE + "/__init__.py", 0, 0)
