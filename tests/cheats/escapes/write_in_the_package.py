# ESCAPE: write in the package
# END: raised
# SAYS: refused
from probing import PACKAGE


def run():
    open(PACKAGE + "/escape.py", "w")
