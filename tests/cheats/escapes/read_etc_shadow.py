# ESCAPE: read /etc/shadow
# END: raised
# SAYS: refused|No such file


def run():
    open("/etc/shadow").read()
