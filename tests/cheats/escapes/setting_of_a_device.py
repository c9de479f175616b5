# ESCAPE: change the machine's devices in /sys
# END: raised
# SAYS: refused|Read-only|No such file


def run():
    open("/sys/power/state", "w").write("mem")
