"""How far an output may be from its reference: the tolerance classes of the benchmark.

Law: three limits hold together. The relative L2 error is at most `rel_l2`; the largest error is at
most `max_abs` times the reference's root mean square beyond `POINT_FACTOR` times `rel_l2` of the
element; and the relative L2 error of each row is at most `ROW_FACTOR` times `rel_l2`. Integer and
boolean outputs are exact in every class but Q1 and Q2, where 8-bit codes may be one step off on a
few elements; the judge lets pass only those of them that stand near a tie. In Q1 the values of
8-bit floats are codes too: one step is far over any other limit; what else such a task gives, as
the scales of its codes, is judged as in BM.
The limits of the B classes are bfloat16's; float16 has three more bits of mantissa, and takes an
eighth of them.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from nki_agent.isa.dtype import DType

ROW_FACTOR = 10.0
"""A row may be this many times worse than the whole: one bad row in a thousand stays visible."""
POINT_FACTOR = 2.0
"""An element may be off by this many times `rel_l2` of itself before the largest-error limit
counts.

Without it, an honest rounding of a peaked output (a softmax row that is almost one-hot) fails.
"""
ROW_FLOOR = 0.01
"""The norm that a row's error is measured against is at least this share of the median row's."""
CHAIN_ROW_FLOOR = 0.1
"""The same for short rows in classes of chains in 16 or 8 bits: there each step rounds values of
the size of the others, which a row that comes out small keeps."""
SHORT_ROW = 16
"""Rows of fewer elements may come out small by chance; longer ones are small where their operands
are, which are rounded to as little."""
CODE_STEPS = 1
"""Steps that a quantised code may be off: the two sides of a rounding tie."""
CODE_SHARE = 0.005
"""Share of quantised codes that may be off."""


class ToleranceClass(StrEnum):
    """A class by the name that the benchmark's table gives it."""

    EX = "EX"  # copies, selects, largest and smallest, integers
    IX = "IX"  # indices, and the values beside them
    F1 = "F1"  # float32 sums and products only
    F2 = "F2"  # float32 transcendentals, reductions, matmuls
    F3 = "F3"  # float32 scans, backward passes, long chains, blocks
    F4 = "F4"  # float32 recurrences over time
    B1 = "B1"  # one bfloat16 operation
    B2 = "B2"  # bfloat16 matmul or attention, fused
    B3 = "B3"  # bfloat16 model block
    BM = "BM"  # mixed: float32 outputs as F2, narrower ones as B1
    Q1 = "Q1"  # quantised codes, and their scales
    Q2 = "Q2"  # the kernel quantises inside


class Gate(StrEnum):
    """How two arrays are compared."""

    EXACT = "exact"
    REAL = "real"
    CODES = "codes"


class Tolerance(msgspec.Struct, frozen=True, kw_only=True):
    """The limits for one output."""

    gate: Gate
    rel_l2: float = 0.0
    max_abs: float = 0.0
    row_floor: float = ROW_FLOOR
    code_share: float = CODE_SHARE
    """Part of the codes that may be a step off."""

    def loosened(self, factor: float) -> Tolerance:
        """The same gate with both limits `factor` times as wide; exact stays exact."""
        return msgspec.structs.replace(
            self, rel_l2=self.rel_l2 * factor, max_abs=self.max_abs * factor
        )

    def floor_of(self, width: int) -> float:
        """The least norm of rows of this width, as a share of the typical row's."""
        return self.row_floor if width < SHORT_ROW else min(self.row_floor, ROW_FLOOR)

    @property
    def decided(self) -> Tolerance:
        """The limits once ties are settled: no code is off any more."""
        return msgspec.structs.replace(self, code_share=0.0)


# Relative L2 error, and largest error over root mean square.
LIMITS: dict[ToleranceClass, tuple[float, float]] = {
    ToleranceClass.EX: (0.0, 0.0),
    ToleranceClass.IX: (2e-5, 1e-3),
    ToleranceClass.F1: (2e-6, 2e-5),
    ToleranceClass.F2: (2e-5, 1e-3),
    ToleranceClass.F3: (1e-4, 5e-3),
    ToleranceClass.F4: (3e-4, 1e-2),
    ToleranceClass.B1: (4e-3, 6e-2),
    ToleranceClass.B2: (1e-2, 0.15),
    ToleranceClass.B3: (2e-2, 0.3),
    ToleranceClass.Q1: (1e-2, 8e-2),
    ToleranceClass.Q2: (3e-2, 0.3),
}
_WIDER: dict[ToleranceClass, ToleranceClass] = {
    ToleranceClass.EX: ToleranceClass.F1,
    ToleranceClass.IX: ToleranceClass.F3,
    ToleranceClass.F1: ToleranceClass.F2,
    ToleranceClass.F2: ToleranceClass.F3,
    ToleranceClass.F3: ToleranceClass.F4,
    ToleranceClass.F4: ToleranceClass.B1,
    ToleranceClass.B1: ToleranceClass.B2,
    ToleranceClass.BM: ToleranceClass.B2,
    ToleranceClass.B2: ToleranceClass.B3,
    ToleranceClass.B3: ToleranceClass.Q2,
    ToleranceClass.Q1: ToleranceClass.Q2,
}
_BFLOAT16 = frozenset({ToleranceClass.B1, ToleranceClass.B2, ToleranceClass.B3})
FLOAT16_SHARE = 2.0**-3
"""A rounding to float16 over one to bfloat16: 10 bits of mantissa against 7."""
_CHAINS = frozenset({ToleranceClass.B2, ToleranceClass.B3, ToleranceClass.Q2})
_CODES = frozenset({ToleranceClass.Q1, ToleranceClass.Q2})
_MIXED = frozenset({ToleranceClass.BM, ToleranceClass.Q1})
_CODE_DTYPES = frozenset({DType.INT8, DType.UINT8})


def tolerance_for(name: ToleranceClass, dtype: DType) -> Tolerance:
    """The limits of a class for an output of this dtype."""
    if dtype.is_integer:
        if name not in _CODES or dtype not in _CODE_DTYPES:
            return Tolerance(gate=Gate.EXACT)
        rel_l2, max_abs = LIMITS[name]
        return Tolerance(gate=Gate.CODES, rel_l2=rel_l2, max_abs=max_abs)
    if name is ToleranceClass.EX:
        return Tolerance(gate=Gate.EXACT)
    if name is ToleranceClass.Q1 and dtype.itemsize == 1:
        rel_l2, max_abs = LIMITS[name]
        return Tolerance(gate=Gate.CODES, rel_l2=rel_l2, max_abs=max_abs)
    if name in _MIXED:
        name = ToleranceClass.F2 if dtype.itemsize == DType.FLOAT32.itemsize else ToleranceClass.B1
    rel_l2, max_abs = LIMITS[name]
    if dtype is DType.FLOAT16 and name in _BFLOAT16:
        # Never tighter than float32's: an honest kernel computes in float32.
        floor_l2, floor_abs = LIMITS[ToleranceClass.F2]
        rel_l2 = max(rel_l2 * FLOAT16_SHARE, floor_l2)
        max_abs = max(max_abs * FLOAT16_SHARE, floor_abs)
    row_floor = CHAIN_ROW_FLOOR if name in _CHAINS else ROW_FLOOR
    return Tolerance(gate=Gate.REAL, rel_l2=rel_l2, max_abs=max_abs, row_floor=row_floor)


def find_wider(name: ToleranceClass) -> ToleranceClass | None:
    """The next wider class; None after the widest."""
    return _WIDER.get(name)
