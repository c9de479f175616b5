# ESCAPE: read another room
# END: raised
# SAYS: refused|No such file
from probing import PACKAGE


def run():
    open(PACKAGE + "/__init__.py").read()
