"""How much a kernel may ask of the simulator, so that no Program keeps the judge for hours.

Law: counted from the Program and the task, never timed, so the verdict is the same on every
machine. A task may have a base, and so many passes over its own tensors and products; an honest
kernel takes a small part of it.
"""

from __future__ import annotations

from collections import Counter

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.signature import Signature
from nki_agent.program.records import Program
from nki_agent.task.task import ShapeSet

ELEMS_BASE = 2**31
"""Elements that the instructions of one run may pass over, for the smallest task. Most take NumPy
0.1 to 1 ns, the dearest (`gelu` with rounding to bfloat16) 5 ns.
"""
PASSES_MAX = 2**11
"""Times that a kernel may pass over all tensors of its task beside that."""
STEPS_MAX = 10_000_000
"""Steps of run-time loops, for the largest task."""
ELEMS_PER_STEP = 2**11
"""A step of a run-time loop takes at most as long as so many elements, by the simulator's count."""
INSTRUCTION_ELEMS_MAX = 2**28
"""Elements that one instruction may pass over, since it may need a temporary of that size."""
INSTRUCTION_ELEMS = 2**11
"""What an instruction costs beside its elements, in elements."""
MACS_PER_ELEM = 64
"""Multiply-adds of a matmul that take NumPy as long as one element of another instruction."""
SCRATCH_BYTES = 2 * 2**30
"""Memory that the simulator may take beside the task's own tensors."""
PRODUCT = ("stationary", "moving")
COPIES_MAX = 8
"""Copies of the task's tensors that a kernel may make."""


def elems_max(shapes: ShapeSet) -> int:
    """Elements that the instructions of one run of a kernel for this task may pass over."""
    tensors = sum(t.num_elems for t in shapes.tensors) + sum(o.num_elems for o in shapes.outputs)
    products = shapes.work.matmul_flops // (2 * MACS_PER_ELEM)
    return ELEMS_BASE + PASSES_MAX * (tensors + products)


def steps_max(shapes: ShapeSet) -> int:
    """Steps that the run-time loops of one run may take."""
    return min(STEPS_MAX, elems_max(shapes) // ELEMS_PER_STEP)


def check_work(program: Program, *, elems_max: int) -> Diagnostic | None:
    """NK117 where running the Program once would take the simulator too long."""
    uses = Counter(i.signature for i in program.all_instructions())
    elems = {number: _elems(program.signatures[number]) for number in uses}
    works = {n: count * (elems[n] + INSTRUCTION_ELEMS) for n, count in uses.items()}
    total, largest = sum(works.values()), max(elems.values(), default=0)
    if largest > INSTRUCTION_ELEMS_MAX:
        what, got, limit = "elements of one instruction", largest, INSTRUCTION_ELEMS_MAX
        worst = max(elems, key=elems.__getitem__)
    elif total > elems_max:
        what, got, limit = "elements that the instructions pass over", total, elems_max
        worst = max(works, key=works.__getitem__)
    else:
        return None
    stack = next(i.stack for i in program.all_instructions() if i.signature == worst)
    return Diagnostic(
        code="NK117",
        what=f"number of {what}",
        got=str(got),
        limit=str(limit),
        where=program.stack(stack),
        hint=f"most of it is `{program.signatures[worst].op}`, {uses[worst]} times; remove repeated"
        " work",
    )


def _elems(signature: Signature) -> int:
    sizes = [o.pattern.partitions * o.pattern.free_elems for o in signature.operands]
    if signature.op != "nc_matmul":
        return max(sizes, default=0)
    stationary, moving = (next(o for o in signature.operands if o.role == r) for r in PRODUCT)
    macs = stationary.pattern.partitions * stationary.pattern.free_elems * moving.pattern.free_elems
    return max(*sizes, macs // MACS_PER_ELEM)


def memory_bytes_max(shapes: ShapeSet) -> int:
    """Bytes of buffers that the simulator may have for a kernel of this task."""
    tensors = sum(t.num_bytes for t in shapes.tensors) + sum(o.num_bytes for o in shapes.outputs)
    return SCRATCH_BYTES + COPIES_MAX * tensors
