# ESCAPE: write in /tmp
# END: raised
# SAYS: refused


def run():
    open("/tmp/nki-agent-escape", "w")
