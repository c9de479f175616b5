# ESCAPE: allocate in C, past Python
# END: memory
# SAYS: bytes of memory
import ctypes


def run():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    kept = []
    while pointer := libc.malloc(64 << 20):
        ctypes.memset(pointer, 1, 64 << 20)
        kept.append(pointer)
    raise MemoryError
