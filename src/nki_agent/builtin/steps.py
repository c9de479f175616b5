"""`stack`: the results of a loop over time as a recurrence, or anything else side by side."""

from __future__ import annotations

from collections.abc import Sequence

from nki_agent.builtin.moves import MOVES
from nki_agent.builtin.recurrences import NotLinearError, scan_steps
from nki_agent.builtin.rolling import roll_up
from nki_agent.builtin.rules import Ref, Rules
from nki_agent.builtin.stepping import step_through


def stack_rule(rules: Rules, tensors: Sequence[Ref], dim: int = 0) -> Ref:
    """Tensors along a new axis."""
    rolled = roll_up(rules.builder, [tensor.id for tensor in tensors])
    if rolled is not None:
        try:
            return scan_steps(rules, rolled, dim)
        except NotLinearError:
            return step_through(rules, rolled, dim)
    made: Ref = MOVES["stack"](rules, tensors, dim)
    return made
