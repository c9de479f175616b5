# ESCAPE: have Linux start a program as root at a crash
# END: raised
# SAYS: refused|Read-only


def run():
    open("/proc/sys/kernel/core_pattern", "w").write("|/tmp/nki-agent-escape")
