# ESCAPE: read /etc/shadow
# END: raised
# SAYS: refused


def run():
    open("/etc/shadow").read()
