# ESCAPE: read this test
# END: raised
# SAYS: refused|No such file
from probing import ROOT


def run():
    open(ROOT + "/tests/sandbox/survey.py").read()
