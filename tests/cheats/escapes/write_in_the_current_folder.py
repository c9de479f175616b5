# ESCAPE: write in the current folder
# END: raised
# SAYS: refused


def run():
    open("result.json", "w")
