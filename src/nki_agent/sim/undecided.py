"""PSUM tensors of which only a run knows whether a matmul is the first to write there.

Those are tensors that a matmul writes in a loop inside of their scope, and those it writes at
run-time offsets. They are empty again each time that their scope begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nki_agent.program.records import Dynamic, DynamicKind, Instruction, Program
from nki_agent.sim.forms import Form
from nki_agent.sim.order import Order
from nki_agent.sim.psum import StartedElements
from nki_agent.sim.storage import Fill


@dataclass(slots=True)
class Undecided:
    """See the module's docstring."""

    tensors: dict[int, StartedElements] = field(default_factory=dict)
    scattered: set[int] = field(default_factory=set)
    """Tensors that a matmul writes through `.indirect`."""
    scopes: dict[int | None, list[int]] = field(default_factory=dict)
    """Tensors by the innermost loop of their scope."""

    def clears(self, loop: int | None) -> list[Fill]:
        """What runs where a scope begins: an iteration of a loop, or the whole run."""
        return [(self.tensors[index].clear, ()) for index in self.scopes.get(loop, ())]


def find_undecided(program: Program, order: Order, forms: Sequence[Form]) -> Undecided:
    """Look at every matmul, if there are loops or offsets at all."""
    found = Undecided()
    if not order.is_run_dependent:
        return found
    for position, node in enumerate(order.instructions):
        if not forms[node.signature].is_matmul:
            continue
        index = node.tensors[0]
        tensor = program.tensors[index]
        move = _move_of_dst(node)
        if move is not None and move.kind is not DynamicKind.SCALAR:
            found.scattered.add(index)
        depth = len(order.paths[position]) if order.paths is not None else 0
        if depth > len(tensor.scope) or move is not None:
            if index not in found.tensors:
                scope = tensor.scope[-1] if tensor.scope else None
                found.scopes.setdefault(scope, []).append(index)
            found.tensors.setdefault(index, StartedElements(tensor))
    return found


def _move_of_dst(node: Instruction) -> Dynamic | None:
    moves = node.detail.dynamic if node.detail is not None else ()
    return next((move for move in moves if move.operand == 0), None)
