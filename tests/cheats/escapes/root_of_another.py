# ESCAPE: read the file system as the first process sees it
# END: raised
# SAYS: refused|No such file


def run():
    open("/proc/1/root/etc/passwd").read()
