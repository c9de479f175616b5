# ESCAPE: type on the terminal
# END: raised
# SAYS: refused
import fcntl


def run():
    fcntl.ioctl(0, 0x5412, b"x")
