# ESCAPE: read the settings of this project
# END: raised
# SAYS: refused|No such file
from probing import ROOT


def run():
    open(ROOT + "/pyproject.toml").read()
