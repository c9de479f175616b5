# ESCAPE: a device
# END: raised
# SAYS: refused


def run():
    open("/dev/zero", "rb").read(1)
