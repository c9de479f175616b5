# ESCAPE: loop for ever
# END: timeout
# SAYS: 0.4 s
# LIMITS: short


def run():
    while True:
        pass
