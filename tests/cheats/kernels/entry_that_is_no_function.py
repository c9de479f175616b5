# TRICK: makes a kernel of something that is no function
# STAGE: refused
# CODE: NK102
# BEHIND STAGE: untraceable
# BEHIND CODE: NK102
import nki


class Callable:
    __name__ = "\x1b[2J"
    __module__ = "kernel_file"

    def __call__(self, x):
        return x


kernel = nki.jit(Callable())
