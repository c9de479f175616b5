# TRICK: gives the scale of 126 steps with the codes of 127
# STAGE: wrong
# CODE: NK501
# BEHIND STAGE: wrong
# BEHIND CODE: NK501
# TASK: codes
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    codes = nl.ndarray(x.shape, dtype=nl.int8, buffer=nl.shared_hbm)
    scales = nl.ndarray((x.shape[0],), dtype=nl.float32, buffer=nl.shared_hbm)
    column = scales.reshape((x.shape[0], 1))
    for start in range(0, x.shape[0], 100):
        tile = nl.load(x[start : start + 100, :])
        largest = nl.max(nl.abs(tile), axis=1, keepdims=True)
        step = nl.multiply(largest, 1.0 / 127.0)
        scale = nl.multiply(largest, 1.0 / 126.0)
        nisa.tensor_scalar(
            dst=tile, data=tile, op0=nl.multiply, operand0=nl.reciprocal(step)
        )
        rounded = nl.ndarray(tile.shape, dtype=nl.int8, buffer=nl.sbuf)
        nisa.tensor_copy(dst=rounded, src=tile)
        nl.store(codes[start : start + 100, :], rounded)
        nl.store(column[start : start + 100, :], scale)
    return codes, scales
