# TRICK: puts a name of ten megabytes into an error
# STAGE: untraceable
# CODE: NK202
# BEHIND STAGE: untraceable
# BEHIND CODE: NK202
import nki
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, name="\x1b[31m" * 2_000_000)
    return tile[200:300, :]
