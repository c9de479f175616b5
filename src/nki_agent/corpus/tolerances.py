"""The tolerance class of a drawn task, from how rough its operators are.

Law: moves and selections are exact. In float32 the roughest operator decides. In bfloat16 the
number of roundings does: one alone, a chain or a product, a block.
"""

from __future__ import annotations

from nki_agent.corpus.expand import BFLOAT16, Draft
from nki_agent.task.tolerance import ToleranceClass

_FLOAT32 = (
    ToleranceClass.EX,
    ToleranceClass.F1,
    ToleranceClass.F2,
    ToleranceClass.F3,
    ToleranceClass.F4,
)
_SUM, _OVER_TIME = 1, 4
_PLAIN_SUMS_MAX = 2
_CHAIN_MAX = 5
_BLOCK_LEVEL = 3


def choose_class(draft: Draft) -> ToleranceClass:
    """The class that the file states."""
    if draft.pattern.tolerance:
        return ToleranceClass(draft.pattern.tolerance)
    rough = max([draft.pattern.rough, *(o.rough for o in draft.operators)])
    steps = sum(o.rough > 0 for o in draft.operators)
    if rough == 0:
        return ToleranceClass.EX
    if draft.dtype != BFLOAT16:
        is_long = rough == _SUM and steps > _PLAIN_SUMS_MAX
        return _FLOAT32[rough + 1 if is_long else rough]
    if draft.is_wide:
        return ToleranceClass.B1
    return _narrow(draft, steps, rough)


def _narrow(draft: Draft, steps: int, rough: int) -> ToleranceClass:
    has_matmul = any(o.matmul for o in draft.operators)
    if draft.pattern.level == _BLOCK_LEVEL or steps > _CHAIN_MAX or rough >= _OVER_TIME:
        return ToleranceClass.B3
    if has_matmul or steps > 1:
        return ToleranceClass.B2
    return ToleranceClass.B1
