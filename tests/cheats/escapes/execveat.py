# ESCAPE: execveat
# END: raised
# SAYS: refused
from probing import call, of


def run():
    call(of(322, 281), -100, 0, 0, 0, 0)
