# ESCAPE: kernel memory
# END: raised
# SAYS: PermissionError|Operation not permitted|Permission denied|No such file


def run():
    open("/dev/kmem", "rb")
