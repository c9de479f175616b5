# ESCAPE: read the settings of this project
# END: raised
# SAYS: refused
from probing import ROOT


def run():
    open(ROOT + "/pyproject.toml").read()
