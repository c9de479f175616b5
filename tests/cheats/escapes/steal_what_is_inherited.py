# ESCAPE: read whatever is open
# END: raised
# SAYS: LookupError: nothing that can be read
import os


def run():
    found = []
    for number in range(1024):
        try:
            found.append(os.read(number, 1 << 16))
        except OSError:
            continue
    if any(found):
        return b"".join(found)
    raise LookupError("nothing that can be read")
