# ESCAPE: a call through int 0x80
# END: killed
# SAYS: SIGSYS|SIGSEGV
# MACHINE: x86_64
import ctypes
import mmap


def run():
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()
