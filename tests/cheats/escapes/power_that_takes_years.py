# ESCAPE: compute a power that takes years
# END: timeout
# SAYS: 0.4 s
# LIMITS: short


def run():
    return 9**9**9**9
