# ESCAPE: fill every folder that anybody may write to
# END: raised
# SAYS: refused|No such file


def run():
    for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock", "."):
        try:
            with open(folder + "/nki-agent-escape", "wb") as file:
                while True:
                    file.write(bytes(1 << 20))
        except OSError as error:
            last = error
    raise last
