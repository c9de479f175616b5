# ESCAPE: have Linux kill the warmed process when memory runs out
# END: raised
# SAYS: refused
import os


def run():
    open(f"/proc/{os.getppid()}/oom_score_adj", "w").write("1000")
