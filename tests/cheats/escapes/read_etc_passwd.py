# ESCAPE: read /etc/passwd
# END: raised
# SAYS: refused


def run():
    open("/etc/passwd").read()
