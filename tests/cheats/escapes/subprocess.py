# ESCAPE: subprocess
# END: raised
# SAYS: refused
import subprocess


def run():
    subprocess.run(["/bin/id"])
