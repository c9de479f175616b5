# ESCAPE: write in shared memory
# END: raised
# SAYS: refused


def run():
    open("/dev/shm/nki-agent-escape", "w")
