# ESCAPE: write to the terminal
# END: raised
# SAYS: refused|No such device


def run():
    open("/dev/tty", "w").write(chr(27) + "]0;owned" + chr(7))
