# ESCAPE: be told when others open a file
# END: raised
# SAYS: refused
import fcntl
import os


def run():
    with open(os.__file__, "rb") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
