# ESCAPE: read this test
# END: raised
# SAYS: refused
from probing import ROOT


def run():
    open(ROOT + "/tests/sandbox/survey.py").read()
