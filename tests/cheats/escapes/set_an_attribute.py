# ESCAPE: hide data in a file's attributes
# END: raised
# SAYS: refused|not supported
import os


def run():
    os.setxattr(os.__file__, "user.escape", b"x")
