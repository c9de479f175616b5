# ESCAPE: announce a small result and write for ever
# END: oversize
# SAYS: 1048576 bytes
import os
from probing import descriptors


def run():
    result = max(descriptors())
    os.write(result, b"=" + bytes(8) + (1).to_bytes(8, "little"))
    while True:
        os.write(result, bytes(1 << 16))
