"""Reads of a decaying matrix state, by products: a scan of outer products, read and added up.

Law: a state S[k, v] decays by a factor a[k] that all v share, and takes in key[k] * value[v]; what
is read is the sum over k of read[k] * S[k, v]. A pair of steps then weighs the sum over k of
read * key * the decays between them. Where two steps lie in the two halves of a run, these decays
are a product of those behind the first and those in front of the second, so one product makes the
weights of all such pairs; runs double. Nothing is divided by a decay, so none is too small.
Not covered: an operand that the pass itself makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nki_agent.builtin.graph import Graph, Node, Op
from nki_agent.builtin.resident_plan import DecayedSumPlan
from nki_agent.builtin.scans import BEFORE
from nki_agent.builtin.tile_steps import Access, Size
from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.dtype import DType

KEYS, VALUES, STEPS = -3, -2, -1
"""The axes of an access: what is added up, rows of the result, and time."""
STATE_MIN = 1024
"""A smaller state of a head is scanned as fast as its pairs of steps are weighed."""


@dataclass(frozen=True, slots=True)
class DecayedSum:
    """Which operand is what."""

    read: int
    decay: int
    factors: tuple[int, int]
    """Key and value, in any order."""
    bonus: int | None
    """What the step's own outer product is read with, beside the state that the step finds; None
    where it reads the state that it leaves."""


def find_decayed_sum(graph: Graph, nodes: Sequence[int], fold: int) -> DecayedSum | None:
    """The nodes of a pass that ends in a total as such a sum; None if they are another."""
    if graph[fold].function != "add":
        return None
    total = graph.base(graph[fold].inputs[0])
    scans = [graph[n] for n in nodes if graph[n].op is Op.SCAN]
    if len(scans) != 1 or not _is_product(total):
        return None
    (scan,) = scans
    is_before = scan.function == "linear" + BEFORE
    outer = graph.base(scan.inputs[1])
    if (scan.function != "linear" and not is_before) or outer.id not in nodes:
        return None
    if not _is_product(outer) or any(graph.base(i).id in nodes for i in outer.inputs):
        return None
    seen, bonus, used = scan.id, None, {total.id, scan.id, outer.id, fold}
    sums = [graph[n] for n in nodes if n not in used and _reads(graph, graph[n], scan.id)]
    if is_before:
        if len(sums) != 1 or sums[0].function != "add":
            return None
        more = graph.base(_other(graph, sums[0], scan.id))
        if not _is_product(more) or not _reads(graph, more, outer.id):
            return None
        bonus = _other(graph, more, outer.id)
        seen, used = sums[0].id, {*used, sums[0].id, more.id}
    if used != {*nodes, fold} or not _reads(graph, total, seen):
        return None
    first, second = outer.inputs
    return DecayedSum(
        read=_other(graph, total, seen),
        decay=scan.inputs[0],
        factors=(first, second),
        bonus=bonus,
    )


def _is_product(node: Node) -> bool:
    return node.op is Op.BINARY and node.function == "multiply"


def _reads(graph: Graph, node: Node, made: int) -> bool:
    return any(graph.base(i).id == made for i in node.inputs)


def _other(graph: Graph, node: Node, made: int) -> int:
    """The operand that is not the one made by a node."""
    first, second = node.inputs
    return second if graph.base(first).id == made else first


def plan_decayed_sum(
    found: DecayedSum,
    accesses: Mapping[int, Access],
    *,
    sizes: Sequence[Size],
    out: Access,
    chip: ChipSpec,
) -> DecayedSumPlan | None:
    """Plan such a sum; None where operands vary along other axes, or tiles do not hold them.

    Accesses and sizes are over outer loops, what is added up, rows, and steps.
    """
    if any(side not in accesses for side in _operands(found)):
        return None
    key, value = sorted(found.factors, key=lambda side: not any(accesses[side].strides[KEYS]))
    own = {found.read: {KEYS, STEPS}, found.decay: {KEYS, STEPS}}
    own |= {key: {KEYS, STEPS}, value: {VALUES, STEPS}}
    own |= {} if found.bonus is None else {found.bonus: {KEYS}}
    for side, axes in own.items():
        moving = {a for a in (KEYS, VALUES, STEPS) if any(accesses[side].strides[a])}
        if moving != axes:
            return None
    *outer, keys, values, steps = sizes
    is_small = max(keys) * max(values) < STATE_MIN
    if not outer or max(*keys, *values) > chip.partitions or is_small:
        return None

    def without(side: int, axis: int) -> Access:
        strides = list(accesses[side].strides)
        del strides[axis]
        access = accesses[side]
        return Access(tensor=access.tensor, strides=tuple(strides), offset=access.offset)

    bonus = None if found.bonus is None else without(found.bonus, VALUES)
    return DecayedSumPlan(
        title="decayed sum",
        outer=tuple(outer[:-1]),
        heads=outer[-1],
        keys=keys,
        values=values,
        steps=steps,
        key=without(key, VALUES),
        read=without(found.read, VALUES),
        decay=without(found.decay, VALUES),
        value=without(value, KEYS),
        bonus=bonus,
        out=Access(
            tensor=out.tensor,
            strides=(*out.strides[:KEYS], *out.strides[VALUES:]),
            offset=out.offset,
        ),
    )


def is_float32(graph: Graph, found: DecayedSum) -> bool:
    """Whether all operands are."""
    return all(graph[side].dtype is DType.FLOAT32 for side in _operands(found))


def _operands(found: DecayedSum) -> list[int]:
    bonus = () if found.bonus is None else (found.bonus,)
    return [found.read, found.decay, *found.factors, *bonus]
