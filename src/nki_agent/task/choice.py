"""The tolerance class that a task starts with; calibration widens it where it must."""

from __future__ import annotations

import math

from nki_agent.isa.dtype import DType
from nki_agent.task.record import Record
from nki_agent.task.task import ShapeSet
from nki_agent.task.tolerance import LIMITS, ToleranceClass

DEPTH_SHARE = 0.5
"""Part of the tolerance that adding one by one may use up."""
# Half a unit in the last place: what one addition in float32 loses at most, relative to its sum.
_FLOAT32_ROUNDING = 2.0**-24
_CODES = {DType.INT8, DType.UINT8}
_FLOAT32_CLASSES = (ToleranceClass.F2, ToleranceClass.F3, ToleranceClass.F4)


def choose_tolerance(shapes: ShapeSet, record: Record) -> ToleranceClass:
    """The class by dtype, operations and the depth of sums.

    Nothing but copies and selections has EX. float32 has F2, and the next class where adding one by
    one would use up half of it. Narrow floats have B1, with a matmul B2; both kinds together BM.
    8-bit floats, also inside, have Q2, and 8-bit integers made of reals Q1.
    """
    if record.is_exact:
        return ToleranceClass.EX
    dtypes = [output.dtype for output in shapes.results]
    reals = [dtype for dtype in dtypes if dtype.is_float]
    if record.quantises or any(dtype.itemsize == 1 for dtype in reals):
        return ToleranceClass.Q2
    if _CODES & set(dtypes) and any(tensor.dtype.is_float for tensor in shapes.tensors):
        return ToleranceClass.Q1
    narrow = [dtype for dtype in reals if dtype.itemsize < DType.FLOAT32.itemsize]
    if narrow and record.has_matmul:
        return ToleranceClass.B2
    if narrow:
        return ToleranceClass.B1 if len(narrow) == len(reals) else ToleranceClass.BM
    rounding = _FLOAT32_ROUNDING * math.sqrt(record.depth)
    fitting = (name for name in _FLOAT32_CLASSES if rounding <= DEPTH_SHARE * LIMITS[name][0])
    return next(fitting, ToleranceClass.F4)
