# ESCAPE: another's command line
# END: raised
# SAYS: refused


def run():
    open("/proc/1/cmdline").read()
