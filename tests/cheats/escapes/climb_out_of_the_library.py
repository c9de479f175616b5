# ESCAPE: read /etc/passwd through `..` from a folder that may be read
# END: raised
# SAYS: refused|No such file
import os


def run():
    folder = os.path.dirname(os.__file__)
    open(folder + "/.." * 12 + "/etc/passwd").read()
