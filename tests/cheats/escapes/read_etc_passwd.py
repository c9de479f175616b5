# ESCAPE: read /etc/passwd
# END: raised
# SAYS: refused|No such file


def run():
    open("/etc/passwd").read()
