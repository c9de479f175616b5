# ESCAPE: read /etc/passwd through /proc/self/root
# END: raised
# SAYS: refused|No such file


def run():
    open("/proc/self/root/etc/passwd").read()
