# ESCAPE: restart the machine
# END: raised
# SAYS: refused|Read-only


def run():
    open("/proc/sysrq-trigger", "w").write("b")
