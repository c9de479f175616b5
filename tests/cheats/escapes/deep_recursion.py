# ESCAPE: deep recursion
# END: raised
# SAYS: RecursionError


def run():
    return run()
