# ESCAPE: a whole forged frame, then sleep
# END: timeout
# SAYS: 0.4 s
# LIMITS: short
import os
import time
from probing import descriptors


def run():
    os.write(max(descriptors()), b"=" + bytes(16))
    time.sleep(60)
