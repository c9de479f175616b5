# ESCAPE: an exception with a long text full of control characters
# END: raised
# SAYS: ^ValueError: �\[2Jx{200,300} at <string>:\d+$


def run():
    raise ValueError(chr(27) + "[2J" + "x" * 100_000_000)
