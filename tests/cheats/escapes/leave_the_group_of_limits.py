# ESCAPE: move out of its control group
# END: raised
# SAYS: refused|Read-only|No such file


def run():
    open("/sys/fs/cgroup/cgroup.procs", "w").write("0")
