"""Which partitions instructions touch that leave some of their operands alone.

Law: an access is dealt into parts of evenly spaced partitions. What is not listed here touches all
of its operands. Sources: the docstrings of nki.isa 0.6.0, named at each function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from nki_agent.isa.gather import GROUP, KEEP
from nki_agent.isa.microscaling import PACK, QUADRANT
from nki_agent.isa.signature import Operand, Pattern, Signature
from nki_agent.program.validate import read_positions, written_positions

Part = tuple[int, Operand, bool, bool]
"""The operand's place, what of it is touched, whether that is read, whether it is written."""
METADATA_ROWS_IN = 2
"""Counts and displacements of what is sent."""
MATMULS = ("nc_matmul", "nc_matmul_mx")
"""Their `dst` has a rule of its own for what it adds to."""


def parts_of(signature: Signature) -> Iterator[Part]:
    """Everything that one signature touches, in the order of its operands."""
    operands = [o for o in signature.operands if not o.is_immediate]
    written, read = set(written_positions(signature)), set(read_positions(signature))
    if signature.op in MATMULS:
        read -= written
    for place, operand in enumerate(operands):
        # A barrier names the tensor that the cores share; it moves none of it.
        reads = place in read and signature.op != "core_barrier"
        writes = place in written
        if operand.role == "metadata_tensor":
            yield from _metadata(signature, place, operand)
            continue
        chosen = _chosen(signature, operand)
        if chosen is None:
            yield place, operand, reads, writes
            continue
        # A partial write keeps the rest as it is, which is no read.
        for part in chosen:
            yield place, part, reads and not writes, writes


def _metadata(signature: Signature, place: int, operand: Operand) -> Iterator[Part]:
    """Rows 0 and 1 go in; row 2 "is never read as input" and comes out unless it is known.

    Row 3, where there is one, is not looked at: a part begins where its operand does.
    """
    *outer, (stride, _), columns = operand.pattern.free
    pattern = Pattern(operand.pattern.partition, (*outer, (stride, METADATA_ROWS_IN), columns))
    yield place, msgspec.structs.replace(operand, pattern=pattern), True, False
    if not signature.attribute("recv_counts_known"):
        yield place, operand, False, True


def _chosen(signature: Signature, operand: Operand) -> list[Operand] | None:
    match signature.op, operand.role:
        case "nonzero_with_count", _:
            # "Only accesses the 0-th partition for each GpSimd core": 0, 16, 32, ...
            return _every(operand, (0,), GROUP)
        case "quantize_mx", "dst_scale":
            # A scale for 8 partitions lies in the first 4 of a quadrant of 32.
            return _every(operand, range(PACK))
        case "nc_matmul_mx", "stationary_scale" | "moving_scale":
            return _every(operand, range(PACK))
        case "nc_stream_shuffle", "dst":
            # Entry i of the mask says what partition i of each quadrant copies; 255 keeps it.
            return _every(operand, (i for i, m in enumerate(_mask(signature)) if m != KEEP))
        case "nc_stream_shuffle", "src":
            return _every(operand, sorted({m for m in _mask(signature) if m != KEEP}))
        case "local_gather", "index":
            return _valid_indices(signature, operand)
        case _:
            return None


def _mask(signature: Signature) -> tuple[int, ...]:
    mask = signature.attribute("shuffle_mask")
    assert isinstance(mask, tuple)
    return tuple(m for m in mask if isinstance(m, int))


def _every(operand: Operand, chosen: Iterable[int], period: int = QUADRANT) -> list[Operand]:
    """The partitions at these places of each `period`."""
    places = list(chosen)
    if len(places) == period:
        return [operand]
    pattern = operand.pattern
    start, step, count = pattern.partition or (0, 1, 1)
    parts = []
    for place in places:
        if place < count:
            rows = -(-(count - place) // period)
            partition = (start + place * step, period * step, rows)
            parts.append(msgspec.structs.replace(operand, pattern=Pattern(partition, pattern.free)))
    return parts


def _valid_indices(signature: Signature, operand: Operand) -> list[Operand] | None:
    """Indices lie in a snake over the 16 partitions of a core; the columns in use are read."""
    valid = signature.attribute("num_valid_indices")
    free = operand.pattern.free
    if not isinstance(valid, int) or len(free) != 1:
        return None
    stride, count = free[0]
    columns = min(count, -(-valid // GROUP))
    pattern = Pattern(operand.pattern.partition, ((stride, columns),))
    return [msgspec.structs.replace(operand, pattern=pattern)]
