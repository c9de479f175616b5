# ESCAPE: never stop because of an error
# END: timeout
# SAYS: 0.4 s
# LIMITS: short


def run():
    while True:
        try:
            raise SystemExit
        except BaseException:
            continue
