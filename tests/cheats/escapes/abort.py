# ESCAPE: abort
# END: killed
# SAYS: signal
import os


def run():
    os.abort()
