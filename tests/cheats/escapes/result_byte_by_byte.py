# ESCAPE: keep its reader busy for ever with one byte at a time
# END: timeout
# SAYS: 0.4 s
# LIMITS: short
import os
import time
from probing import descriptors


def run():
    result = max(descriptors())
    os.write(result, b"=" + bytes(8) + (1 << 19).to_bytes(8, "little"))
    while True:
        os.write(result, b"x")
        time.sleep(0.01)
