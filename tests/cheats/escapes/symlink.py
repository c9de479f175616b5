# ESCAPE: symlink
# END: raised
# SAYS: refused
import os


def run():
    os.symlink("/etc/passwd", "/tmp/nki-agent-escape")
