# ESCAPE: truncate
# END: raised
# SAYS: refused
import os
from probing import PACKAGE


def run():
    os.truncate(PACKAGE + "/__init__.py", 0)
