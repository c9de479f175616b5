# ESCAPE: interrupt
# END: raised
# SAYS: KeyboardInterrupt


def run():
    raise KeyboardInterrupt
