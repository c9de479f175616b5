# ESCAPE: write in the home
# END: raised
# SAYS: refused
from probing import HOME


def run():
    open(HOME + "/escape", "w")
