"""What one DMA instruction asks of the DMA engines.

Law: a descriptor is a run that is contiguous on both sides. A tile's partitions are dealt to the
engines in order, an equal count to each (8 of 128 to each of 16); a transfer inside HBM is dealt
evenly. An engine is held for a fixed time, then for bytes at its peak rate or descriptors at their
least time, whichever is longer; never for less than its effective rate allows for the bytes moved
or, counted on both sides, the HBM bytes. So no Program moves HBM bytes faster than the effective
rate that the bound assumes.
Sources: NKI DMA overview, NKI DMA bandwidth guide; the numbers are in the chip's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, lcm

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import OFFSET_SUFFIX, Call
from nki_agent.isa.enums import DgeMode, DmaEngine, Engine
from nki_agent.isa.rules import engine_for
from nki_agent.isa.signature import Operand
from nki_agent.program.records import DynamicKind

HARDWARE_SINCE = 3
"""First generation that makes descriptors in hardware."""

Moves = tuple[tuple[str, DynamicKind], ...]
"""Roles of operands with run-time offsets, and how they move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One DMA instruction, priced."""

    read_bytes: int
    """Read from HBM."""
    written_bytes: int
    """Written to HBM."""
    payload_bytes: int
    """Moved, counted once, in the wider of both formats."""
    descriptors: int
    engine_ns: tuple[float, ...]
    """Time that each DMA engine is held."""
    issuer: Engine
    """The engine whose queue it waits in."""
    descriptor_engine_ns: float
    """Time that the hardware descriptor engine takes; 0 if descriptors are made beforehand."""
    software_ns: float = 0.0
    """Time that GpSimd takes to make the descriptors; 0 if it does not."""

    @property
    def descriptor_bytes(self) -> float:
        """Bytes of a descriptor on average."""
        return self.payload_bytes / self.descriptors

    @property
    def num_engines(self) -> int:
        """DMA engines that move a part."""
        return sum(1 for ns in self.engine_ns if ns)


def plan_transfer(call: Call, moves: Moves = ()) -> Transfer:
    """Price one DMA call; `moves` names its operands with run-time offsets."""
    dst, sources = call.get("dst"), find_sources(call)
    on_hbm = [s.num_bytes for s in sources if not _is_on_chip(s)]
    read_bytes, written_bytes = sum(on_hbm), 0 if _is_on_chip(dst) else dst.num_bytes
    payload = max(sum(s.num_bytes for s in sources), dst.num_bytes)
    shares = _deal(dst, sources[0], payload, call.chip)
    rows = {role for role, kind in moves if kind is DynamicKind.VECTOR}
    pieces = sum(_count_descriptors(call, dst, src, rows) for src in sources)
    descriptors = max(pieces, sum(1 for s in shares if s))
    rate = _rate_share(call, sources[0])
    moved = max(payload, read_bytes + written_bytes)
    mode, chip = _mode(call, moves), call.chip
    in_software = mode is DgeMode.SWDGE
    cycles = chip.dma_swdge_descriptor_cycles * descriptors
    return Transfer(
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        payload_bytes=payload,
        descriptors=descriptors,
        engine_ns=tuple(
            _held_ns(moved * s, payload * s, descriptors * s, chip) / rate for s in shares
        ),
        issuer=_issuer(call, mode),
        descriptor_engine_ns=chip.dma_hwdge_ns if mode is DgeMode.HWDGE else 0.0,
        software_ns=cycles / chip.gpsimd_clock_ghz if in_software else 0.0,
    )


def find_sources(call: Call) -> list[Operand]:
    """`src`, or the sources of a `dma_compute`."""
    offsets = [o for o in call.signature.operands if o.role.endswith(OFFSET_SUFFIX)]
    return [o for o in call.signature.operands if o.role != "dst" and o not in offsets]


def _is_on_chip(operand: Operand) -> bool:
    return operand.memory is not None and operand.memory.is_on_chip


def _mode(call: Call, moves: Moves) -> DgeMode:
    """Who makes the descriptors, where the call leaves it open.

    Rows by index and arithmetic on them are made in software; one run-time offset in hardware where
    the chip has it and the copy does not cast (NKI descriptor generation reference).
    """
    asked = DgeMode(str(call.attribute("dge_mode") or DgeMode.UNKNOWN))
    if asked is not DgeMode.UNKNOWN or not moves:
        return asked
    by_index = any(kind is not DynamicKind.SCALAR for _, kind in moves)
    has_hardware = call.chip.generation >= HARDWARE_SINCE
    casts = any(o.dtype is not call.get("dst").dtype for o in find_sources(call))
    is_plain = has_hardware and not by_index and not casts
    return DgeMode.HWDGE if is_plain else DgeMode.SWDGE


def _issuer(call: Call, mode: DgeMode) -> Engine:
    """The queue's engine: the one asked for, gpsimd for descriptors made in software, else sync."""
    by_gpsimd = call.attribute("dma_engine") == DmaEngine.GPSIMD_DMA
    if mode is DgeMode.SWDGE or by_gpsimd:
        return Engine.GPSIMD
    engine = engine_for(call)
    return Engine.SYNC if engine is Engine.DMA else engine


def _rate_share(call: Call, src: Operand) -> float:
    if call.declaration.name != "dma_transpose":
        return 1.0
    chip = call.chip
    return chip.dma_transpose_sbuf_share if _is_on_chip(src) else chip.dma_transpose_hbm_share


def _held_ns(moved: float, payload: float, descriptors: float, chip: ChipSpec) -> float:
    if not payload:
        return 0.0
    at_peak = payload / chip.dma_engine_peak_bytes_per_ns
    started = chip.dma_transfer_ns + max(at_peak, descriptors * chip.dma_descriptor_ns)
    rate = min(
        chip.dma_engine_bytes_per_ns, chip.hbm_bytes_per_ns_per_core / chip.dma_engines_per_core
    )
    return max(started, moved / rate)


def _deal(dst: Operand, src: Operand, payload: int, chip: ChipSpec) -> tuple[float, ...]:
    """The share of a transfer that each DMA engine moves."""
    engines = chip.dma_engines_per_core
    tile = dst if _is_on_chip(dst) else src
    if tile.pattern.partition is None:
        used = min(engines, ceil(payload / chip.dma_efficient_descriptor_bytes))
        return (1 / used,) * used + (0.0,) * (engines - used)
    start, step, count = tile.pattern.partition
    per_engine = max(1, chip.partitions // engines)
    dealt = [0] * engines
    for partition in range(start, start + step * count, step):
        dealt[partition // per_engine % engines] += 1
    return tuple(n / count for n in dealt)


def _count_descriptors(call: Call, dst: Operand, src: Operand, rows: set[str]) -> int:
    """Pieces that are contiguous on both sides; a transpose walks its source.

    Operands in `rows` have one row for each index, each a piece of its own.
    """
    elems = src.pattern.partitions * src.pattern.free_elems
    run = contiguous_elems(src, apart=src.role in rows)
    if call.declaration.name == "dma_transpose":
        return ceil(elems / run)
    other = contiguous_elems(dst, apart=dst.role in rows)
    return elems // run + elems // other - elems // lcm(run, other)


def contiguous_elems(operand: Operand, *, apart: bool = False) -> int:
    """Elements that lie one after the other at the inner end of a view.

    With `apart`, no two indices of the first axis do.
    """
    run, expected = 1, operand.dtype.itemsize
    axes = operand.pattern.free[1:] if apart else operand.pattern.free
    for stride, count in reversed(axes):
        if count == 1:
            continue
        if stride != expected:
            break
        run *= count
        expected *= count
    return run
