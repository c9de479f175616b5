# ESCAPE: read the disk past its file system
# END: raised
# SAYS: refused|No such file


def run():
    for name in ("vda", "sda", "nvme0n1", "root"):
        try:
            return open(f"/dev/{name}", "rb").read(512)
        except FileNotFoundError:
            continue
    raise PermissionError("no disk")
