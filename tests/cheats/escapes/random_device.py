# ESCAPE: feed the machine's random numbers
# END: raised
# SAYS: refused


def run():
    open("/dev/urandom", "wb").write(bytes(64))
