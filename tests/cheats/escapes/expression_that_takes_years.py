# ESCAPE: match an expression that takes years
# END: timeout
# SAYS: 0.4 s
# LIMITS: short
import re


def run():
    re.match("(a+)+b", "a" * 64)
