# ESCAPE: append to the package
# END: raised
# SAYS: refused
from probing import PACKAGE


def run():
    open(PACKAGE + "/__init__.py", "a")
