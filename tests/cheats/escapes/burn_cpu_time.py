# ESCAPE: burn CPU time
# END: timeout
# SAYS: over 1 s of CPU
# LIMITS: one CPU second


def run():
    while True:
        pass
