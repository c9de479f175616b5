# ESCAPE: start a shell from C
# END: raised
# SAYS: no shell
import ctypes


def run():
    status = ctypes.CDLL(None).system(b"id > /tmp/nki-agent-escape")
    if status != 0:
        raise OSError(f"no shell: {status}")
