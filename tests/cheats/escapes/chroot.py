# ESCAPE: chroot
# END: raised
# SAYS: refused
import os


def run():
    os.chroot("/")
