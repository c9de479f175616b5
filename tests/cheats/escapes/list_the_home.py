# ESCAPE: list the home
# END: raised
# SAYS: refused|No such file
import os
from probing import HOME


def run():
    os.listdir(HOME)
