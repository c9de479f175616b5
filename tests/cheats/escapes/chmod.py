# ESCAPE: chmod
# END: raised
# SAYS: refused
import os
from probing import PACKAGE


def run():
    os.chmod(PACKAGE + "/__init__.py", 0o777)
