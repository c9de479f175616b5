# ESCAPE: be the last to go when memory runs out
# END: raised
# SAYS: refused


def run():
    open("/proc/self/oom_score_adj", "w").write("-1000")
