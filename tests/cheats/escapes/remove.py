# ESCAPE: remove
# END: raised
# SAYS: refused
import os
from probing import PACKAGE


def run():
    os.unlink(PACKAGE + "/__init__.py")
