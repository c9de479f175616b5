# ESCAPE: write control characters to where errors go, and fail with them
# END: raised
# SAYS: ^ValueError: [^\x00-\x1f\x7f-\x9f\u202e]* at
import os


def run():
    for stream in (1, 2):
        os.write(stream, b"\x1b]0;owned\x07\x1b[2J")
    raise ValueError("\x1b]52;c;b3duZWQ=\x07\r\n\u202e\x9b2J")
