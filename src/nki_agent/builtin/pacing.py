"""Cuts the steps of a tile into phases, and keeps tiles in PSUM, for the shortest time a tile.

Law: a plan changes in nothing but when its steps are issued and in which memory a tile lies. The
time is that of tiles that follow each other on engines which each work in order; loads never wait.
The estimates are for choosing; the cost model has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from nki_agent.builtin.balance import Estimate, balance, find_cuts
from nki_agent.builtin.choices import Phases
from nki_agent.builtin.graph import BITS
from nki_agent.builtin.pending import fold_columns
from nki_agent.builtin.shortening import with_tiles
from nki_agent.builtin.tile_steps import (
    AddUp,
    Combine,
    Kind,
    Scale,
    ScaleCombine,
    Step,
    Tile,
    step_reads,
    step_writes,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine

TILES_MAX = 24
"""Tiles that are followed one after the other; more of them show nothing new."""
GAIN_MIN = 0.02
"""Part of the time by which another plan must be shorter."""
KEPT_GAIN_MIN = 0.02
"""The same for a row that is kept in PSUM: stages around this one do without its banks."""
KEPT_TILES_MIN = 32
"""Fewer tiles are over before what is copied first pays."""
PARKED_MAX = 3
"""Tiles in PSUM at most: each is the choice of a pass over all candidates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """Steps, where their phases begin, and the time that a tile takes among many."""

    steps: tuple[Step, ...]
    cuts: tuple[int, ...]
    tile_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """A step on a timeline."""

    engine: Engine
    interval_ns: float
    latency_ns: float
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    waits: tuple[tuple[str, int], ...]
    """What it writes in PSUM, and how many turns ahead of its last reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacer:
    """Finds the steps and phases of one innermost loop."""

    estimate: Estimate
    floor_ns: float
    """Time that DMA needs for a tile."""
    names: Mapping[str, int]
    """Names of tiles that are taken, and how often."""
    num_tiles: int
    has_phases: bool
    """Whether steps may be issued behind those of the next tile."""
    may_park: bool = True
    banks_held: int = 0
    """PSUM banks that hold other values all the while."""
    phases: Phases = Phases.NEEDED
    vector_elems: int = 0
    """Columns of a row that all tiles share, which may be kept in PSUM; 0 if there is no room."""

    def pace(self, steps: Sequence[Step]) -> Paced:
        """The fastest way that is found."""
        best = self._try(steps)
        if not self.may_park:
            return best
        plain = replace(self, vector_elems=0)._parked(best, steps)
        if not self.vector_elems or self.num_tiles < KEPT_TILES_MIN:
            return plain
        kept = self._parked(best, steps)
        return kept if kept.tile_ns < plain.tile_ns * (1 - KEPT_GAIN_MIN) else plain

    def _parked(self, best: Paced, steps: Sequence[Step]) -> Paced:
        """The same with tiles in PSUM, one after the other, as long as each gains."""
        pacer = self
        for _ in range(PARKED_MAX):
            found: tuple[Paced, Tile, Pacer] | None = None
            for tile in pacer._candidates(best.steps):
                holder = pacer._with(tile, steps)
                tried = holder._try([_park(step, tile) for step in steps])
                limit = (best if found is None else found[0]).tile_ns * (1 - GAIN_MIN)
                if holder._fits(tried) and tried.tile_ns < limit:
                    found = tried, tile, holder
            if found is None:
                return best
            best, tile, pacer = found
            steps = [_park(step, tile) for step in steps]
        return best

    def _with(self, tile: Tile, steps: Sequence[Step]) -> Pacer:
        """The pacer of steps that have this tile in PSUM: one that is kept holds its banks."""
        if any(tile in step_writes(step) for step in steps):
            return self
        return replace(self, banks_held=self.banks_held + self._banks_of(tile))

    def _try(self, steps: Sequence[Step]) -> Paced:
        spread = fold_columns(
            balance(steps, self.estimate, floor_ns=self.floor_ns, scratch=self.names)
        )
        cuts: tuple[int, ...] = ()
        if self.has_phases:
            cuts = find_cuts(spread, self.estimate, Phases.EVERY)
            if self.phases is Phases.NEEDED:
                cuts = self._shortest(spread, cuts)
        return Paced(steps=tuple(spread), cuts=cuts, tile_ns=self._tile_ns(spread, cuts))

    def _shortest(self, steps: Sequence[Step], every: tuple[int, ...]) -> tuple[int, ...]:
        """The cuts that are fastest, of all, every other one and those that are needed."""
        needed = find_cuts(steps, self.estimate, Phases.NEEDED)
        starts = dict.fromkeys((every, every[::2], every[1::2], needed))
        found = [self._prune(steps, cuts) for cuts in starts]
        return min(found, key=lambda cuts: self._tile_ns(steps, cuts))

    def _prune(self, steps: Sequence[Step], cuts: tuple[int, ...]) -> tuple[int, ...]:
        """The fewest cuts that are as fast as all of them, or as all that there is room for."""
        while cuts and not self._has_room(steps, cuts):
            fewer = [tuple(c for c in cuts if c != cut) for cut in cuts]
            cuts = min(fewer, key=lambda kept: self._tile_ns(steps, kept))
        limit = self._tile_ns(steps, cuts) * (1 + GAIN_MIN)
        for cut in cuts:
            fewer_still = tuple(c for c in cuts if c != cut)
            if self._has_room(steps, fewer_still) and self._tile_ns(steps, fewer_still) <= limit:
                cuts = fewer_still
        return cuts

    # -- memory -----------------------------------------------------------------------------------
    def _sbuf_bytes(self, steps: Sequence[Step], cuts: tuple[int, ...]) -> int:
        """What tiles of all phases under way need, with one more of each for running ahead."""
        return sum(
            (span + 2) * self._tile_bytes(tile)
            for tile, span in _spans(steps, cuts).items()
            if not tile.in_psum
        )

    def _tile_bytes(self, tile: Tile) -> int:
        wide = self.vector_elems if tile.kind is Kind.VECTOR else self.estimate.cols
        return (wide if tile.is_wide else 1) * tile.dtype.itemsize

    def _has_room(self, steps: Sequence[Step], cuts: tuple[int, ...]) -> bool:
        """Whether SBUF and PSUM hold the tiles of all phases under way."""
        chip = self.estimate.chip
        fits = self._sbuf_bytes(steps, cuts) <= chip.sbuf_usable_partition_bytes
        return fits and self._psum_banks(steps, cuts) <= self._free_banks

    @property
    def _free_banks(self) -> int:
        return self.estimate.chip.psum_banks - self.banks_held

    def _psum_banks(self, steps: Sequence[Step], cuts: tuple[int, ...]) -> int:
        """What parked tiles need: those of one turn that live together, and one for each phase."""
        parked = {tile: n for tile, n in _spans(steps, cuts).items() if tile.in_psum}
        most = 0
        lives = {tile: _life(steps, tile) for tile in parked}
        for index in range(len(steps) if parked else 0):
            alive = [tile for tile, life in lives.items() if index in life]
            most = max(most, sum(self._banks_of(tile) for tile in alive))
        return most + sum(span * self._banks_of(tile) for tile, span in parked.items())

    def _banks_of(self, tile: Tile) -> int:
        return -(-self._tile_bytes(tile) // self.estimate.chip.psum_bank_bytes)

    def _fits(self, paced: Paced) -> bool:
        """Whether PSUM holds what is parked there, and nothing reaches for it that cannot."""
        users = {
            self.estimate.engine(step)
            for step in paced.steps
            for tile in (*step_writes(step), *step_reads(step))
            if tile.in_psum and not (isinstance(step, AddUp) and tile == step.dst)
        }
        is_reached = users <= {Engine.VECTOR, Engine.SCALAR}
        return is_reached and (not users or self._has_room(paced.steps, paced.cuts))

    def _candidates(self, steps: Sequence[Step]) -> list[Tile]:
        """Tiles that two engines pass on, whose readers then read one operand from SBUF alone."""
        found: dict[Tile, None] = {}
        made = {tile for step in steps for tile in step_writes(step)}
        for step in steps:
            if isinstance(step, Combine | ScaleCombine):
                wide = [t for t in step_reads(step) if t.is_wide]
                if len(wide) > 1 and not any(t.in_psum for t in wide):
                    found |= dict.fromkeys(
                        t for t in wide if t.dtype is DType.FLOAT32 or self._may_keep(t)
                    )
                    found |= dict.fromkeys(t for t in wide if _is_only_bits(t, steps))
        return [
            tile
            for tile in found
            if (tile in made or self._may_keep(tile))
            and not any(_reads_two(_park(step, tile)) for step in steps)
            and all(
                self.estimate.engine(step) is not Engine.DMA
                for step in steps
                if tile in step_writes(step) or tile in step_reads(step)
            )
        ]

    def _may_keep(self, tile: Tile) -> bool:
        return tile.kind is Kind.VECTOR and tile.dtype.is_float and bool(self.vector_elems)

    # -- time -------------------------------------------------------------------------------------
    def _tile_ns(self, steps: Sequence[Step], cuts: tuple[int, ...]) -> float:
        """The time of all tiles, those that are followed, as a share of each."""
        bounds = [0, *cuts, len(steps)]
        phases = [range(a, b) for a, b in pairwise(bounds)]
        held = self._psum_slots(steps, cuts)
        moves = [self._move(step, held) for step in steps]
        free: dict[Engine, float] = {}
        ready: dict[tuple[str, int], float] = {}
        read: dict[tuple[str, int], float] = {}
        last, count = 0.0, min(self.num_tiles, TILES_MAX)
        for turn in range(count + len(phases) - 1):
            for behind, indices in enumerate(phases):
                number = turn - behind
                for index in indices if 0 <= number < count else ():
                    move = moves[index]
                    if move.engine is Engine.DMA:
                        arrival = (number + 1) * self.floor_ns
                        ready |= {(name, number): arrival for name in move.writes}
                        continue
                    start = free.get(move.engine, 0.0)
                    for name in move.reads:
                        start = max(start, ready.get((name, number), 0.0))
                    for name, ahead in move.waits:
                        start = max(start, read.get((name, number - ahead), 0.0))
                    for name in move.reads:
                        read[name, number] = start + move.interval_ns
                    free[move.engine] = start + move.interval_ns
                    for name in move.writes:
                        ready[name, number] = start + move.latency_ns
                    last = max(last, start + move.latency_ns)
        return max(self.floor_ns, last / max(count, 1))

    def _psum_slots(self, steps: Sequence[Step], cuts: tuple[int, ...]) -> dict[str, int]:
        """How many turns a parked tile is written ahead of its last reader."""
        needed = self._psum_banks(steps, cuts)
        parked = {tile: span for tile, span in _spans(steps, cuts).items() if tile.in_psum}
        more = max(0, self._free_banks - needed) // max(1, needed)
        return {tile.name: span + 1 + more for tile, span in parked.items()}

    def _move(self, step: Step, held: Mapping[str, int]) -> _Move:
        """What a step reads, writes and waits for, to be asked once for all turns."""
        engine = self.estimate.engine(step)
        is_dma = engine is Engine.DMA
        written = step_writes(step)
        return _Move(
            engine=engine,
            interval_ns=0.0 if is_dma else self.estimate.interval_ns(step),
            latency_ns=0.0 if is_dma else self.estimate.step_ns(step),
            reads=tuple(tile.name for tile in step_reads(step)),
            writes=tuple(tile.name for tile in written),
            waits=tuple((tile.name, held[tile.name]) for tile in written if tile.in_psum),
        )


def _spans(steps: Sequence[Step], cuts: tuple[int, ...]) -> dict[Tile, int]:
    """For each tile, how many phases behind the one that makes it the last one reads it."""
    phase_of = [sum(cut <= index for cut in cuts) for index in range(len(steps))]
    first: dict[Tile, int] = {}
    last: dict[Tile, int] = {}
    for index, step in enumerate(steps):
        for tile in step_writes(step):
            first.setdefault(tile, phase_of[index])
            last[tile] = phase_of[index]
        for tile in step_reads(step):
            if tile in first:
                last[tile] = phase_of[index]
    return {tile: last[tile] - first[tile] for tile in first}


def _life(steps: Sequence[Step], tile: Tile) -> range:
    """The steps from the one that makes a tile to the last that reads it."""
    used = [i for i, s in enumerate(steps) if tile in step_writes(s) or tile in step_reads(s)]
    return range(used[0], used[-1] + 1)


def _reads_two(step: Step) -> bool:
    """Whether both operands of a step lie in PSUM, which no instruction reads twice at once."""
    return sum(tile.in_psum and tile.is_wide for tile in step_reads(step)) > 1


def _park(step: Step, tile: Tile) -> Step:
    return with_tiles(step, {tile: replace(tile, in_psum=True)})


def _is_only_bits(tile: Tile, steps: Sequence[Step]) -> bool:
    """Whether every step that touches a tile of whole numbers moves bits: none goes to GpSimd."""
    touching = [s for s in steps if tile in step_reads(s) or tile in step_writes(s)]
    return tile.dtype.itemsize == DType.INT32.itemsize and all(map(_moves_bits, touching))


def _moves_bits(step: Step) -> bool:
    match step:
        case Combine():
            return step.op in BITS
        case Scale():
            return all(scalar.op in BITS for scalar in step.scalars)
        case _:
            return False
