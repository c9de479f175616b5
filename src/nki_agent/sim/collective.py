"""Collectives: what a rank sends, what comes of it, and what each rank receives.

A collective is steps that pack, a wait, and steps that unpack; `ranks` lets ranks wait and calls
`combine` in between. Elements are numbered in row-major order of a view.

Law: reductions are computed in float32, from the first rank of the list to the last, and rounded
once, at the destination; all else moves elements unchanged. What nobody sends to keeps its
contents. In the `_v` forms a rank's own column of the metadata counts like any other's.
Ours, since the documentation is silent: all channels go round the ring in one direction, and chunks
that `has_rdispls` lays over each other are written in the order of the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.isa.declaration import LIST_KINDS, Call
from nki_agent.isa.enums import Memory
from nki_agent.sim.alu import BINARY
from nki_agent.sim.axes import Shape
from nki_agent.sim.plan import Arg, Args, Array, Bound, Run
from nki_agent.sim.rounding import WORD
from nki_agent.sim.sequencer import Sequencer
from nki_agent.sim.site import Site
from nki_agent.sim.transfer import load_common, save_common, transfer_dtype

Outboxes = Sequence[Sequence[Array]]
"""What each rank of a list has packed, in the order of the list."""
Inboxes = list[list[Array]]
OnFound = Callable[[Diagnostic], None]
PAIRS = "source_target_pairs"
GROUP = "replica_group"
METADATA = "metadata_tensor"
SEND_COUNTS, SEND_STARTS, RECEIVE_COUNTS, RECEIVE_STARTS = range(4)
"""Rows of the metadata."""


def pack(sequencer: Sequencer, values: Array) -> None:
    """Keep a copy for the other ranks."""
    sequencer.outbox.append(values.copy())


def unpack(sequencer: Sequencer, out: Array) -> None:
    """Take the next array that came in."""
    out[...] = sequencer.inbox.pop(0).reshape(out.shape)


class Parcel:
    """The calls of a collective in front of its wait and behind it, found each time it is met."""

    def __init__(self, find: Callable[[], Bound]) -> None:
        """`find` gives the calls of the whole instruction."""
        self._find = find
        self._behind: tuple[tuple[Run, Args], ...] = ()

    def send(self, on_found: OnFound | None) -> None:
        """Pack; `on_found` asks for checks and takes what they find."""
        runs, args, with_checks = self._find()
        if on_found is not None and with_checks is not None:
            runs, args = with_checks
        calls = tuple(zip(runs, args, strict=True))
        middle = runs.index(unpack)
        self._behind = calls[middle:]
        _run_half(calls[:middle], on_found)

    def receive(self, on_found: OnFound | None) -> None:
        """Unpack and store."""
        _run_half(self._behind, on_found)


def _run_half(calls: Sequence[tuple[Run, Args]], on_found: OnFound | None) -> None:
    for run, args in calls:
        found = run(*args)
        if on_found is not None and isinstance(found, Diagnostic):
            on_found(found)


# Handlers: pack everything, then unpack everything.


def _roles(site: Site, name: str) -> list[str]:
    parameter = site.call.declaration.parameter
    return [o.role for o in site.call.signature.operands if parameter(o.role).name == name]


def _pairs_of(site: Site) -> list[tuple[str, str]]:
    """Each source with its destination."""
    lists = [p.name for p in site.call.declaration.parameters if p.kind in LIST_KINDS]
    srcs, dsts = (_roles(site, name) for name in lists)
    return list(zip(srcs, dsts, strict=True))


def _shape(site: Site, role: str) -> Shape:
    pattern = site.operand(role).pattern
    return pattern.partitions, pattern.free_elems


def _pack(site: Site, values: Arg) -> None:
    site.step(pack, site.sequencer, values)


def _pack_elements(site: Site, role: str, dtype: np.dtype[Any]) -> None:
    _pack(site, load_common(site, role, _shape(site, role), dtype))


def _unpack_elements(site: Site, role: str, dtype: np.dtype[Any]) -> None:
    shape = _shape(site, role)
    got = site.scratch(shape, dtype)
    site.step(unpack, site.sequencer, got)
    save_common(site, role, got, shape, dtype)


def _unpack_result(site: Site, role: str) -> None:
    """A float32 result, rounded."""
    shape = _shape(site, role)
    got = site.target(role, shape)
    site.step(unpack, site.sequencer, got)
    site.store(role, got, shape)


def reduce_together(site: Site) -> None:
    """`all_reduce` and `reduce_scatter`."""
    pairs = _pairs_of(site)
    for src, _ in pairs:
        _pack(site, site.read(src, _shape(site, src)))
    for _, dst in pairs:
        _unpack_result(site, dst)


def move_together(site: Site) -> None:
    """`all_gather`, `all_to_all` and the ring permute."""
    moves = [(src, dst, transfer_dtype(site, dst, src)) for src, dst in _pairs_of(site)]
    for src, _, dtype in moves:
        _pack_elements(site, src, dtype)
    for _, dst, dtype in moves:
        _unpack_elements(site, dst, dtype)


def permute(site: Site) -> None:
    """`collective_permute`: a rank that nobody sends to gets its own old contents."""
    moves = [(src, dst, transfer_dtype(site, dst, src)) for src, dst in _pairs_of(site)]
    for src, dst, dtype in moves:
        _pack_elements(site, src, dtype)
        _pack_elements(site, dst, dtype)
    for _, dst, dtype in moves:
        _unpack_elements(site, dst, dtype)


def permute_reduced(site: Site) -> None:
    """The ring permute of a reduction of two sources."""
    left, right = (_roles(site, f"srcs{n}_by_channel") for n in range(2))
    for first, second in zip(left, right, strict=True):
        shape = _shape(site, first)
        result = site.scratch(shape)
        operands = site.read(first, shape), site.read(second, shape)
        site.step(BINARY[site.name("op")], *operands, result)
        _pack(site, result)
    for dst in _roles(site, "dsts_by_channel"):
        _unpack_result(site, dst)


def move_counted(site: Site) -> None:
    """The `_v` forms: source, old destination and metadata go in."""
    ((src, dst),) = _pairs_of(site)
    dtype = transfer_dtype(site, dst, src)
    shape = _shape(site, METADATA)
    _pack_elements(site, src, dtype)
    _pack_elements(site, dst, dtype)
    _pack(site, site.load(METADATA, shape, WORD))
    _unpack_elements(site, dst, dtype)
    if not site.flag("recv_counts_known"):
        _unpack_elements(site, METADATA, WORD)


# Registers.


def rank_id(site: Site) -> None:
    """This rank's number to a register."""
    (dst,) = site.registers
    site.step(_set_rank, site.sequencer, dst)


def _set_rank(sequencer: Sequencer, dst: int) -> None:
    sequencer.set(dst, sequencer.rank)


def processing_rank_id(site: Site) -> None:
    """The rank whose data a ring has brought here after so many steps."""
    (dst,) = site.registers
    site.step(_set_processing, site.sequencer, dst, site.call)


def _set_processing(sequencer: Sequencer, dst: int, call: Call) -> None:
    members = find_members(call, sequencer.rank)
    if not members:
        raise KernelError(not_in_a_list(call, sequencer.rank))
    steps = call.attribute("iteration_id")
    assert isinstance(steps, int)
    sequencer.set(dst, members[(members.index(sequencer.rank) - steps) % len(members)])


# Who meets, and what comes of it.


def find_members(call: Call, rank: int) -> tuple[int, ...]:
    """The ranks that this one meets, itself among them, in order; none if it meets nobody."""
    if call.signature.op == "collective_permute":
        named = tuple(sorted({end for pair in _lists(call, PAIRS) for end in pair}))
        return named if rank in named else ()
    return next((ranks for ranks in _lists(call, GROUP) if rank in ranks), ())


def _lists(call: Call, attribute: str) -> list[tuple[int, ...]]:
    lists = call.attribute(attribute)
    assert isinstance(lists, tuple)
    return [ranks for ranks in lists if isinstance(ranks, tuple)]


def may_stand_apart(call: Call) -> bool:
    """Whether ranks that it does not name run over it."""
    return call.signature.op == "collective_permute"


def not_in_a_list(call: Call, rank: int) -> Diagnostic:
    """A rank runs a collective that does not name it."""
    return Diagnostic(
        code="NK308",
        what=f"`{GROUP}` of `{call.declaration.name}`",
        got=f"no list with rank {rank}, which runs the kernel",
        limit="each rank in one list",
        hint="name every rank, for example ReplicaGroup([[0, 1], [2, 3]])",
    )


def combine(call: Call, members: Sequence[int], outboxes: Outboxes) -> Inboxes:
    """What each rank of a list unpacks; KernelError, without a place, if metadata are wrong."""
    match call.signature.op:
        case "all_reduce":
            return [_reduce(call, outboxes)] * len(members)
        case "reduce_scatter":
            totals = [total.reshape(len(members), -1) for total in _reduce(call, outboxes)]
            return [[total[index] for total in totals] for index in range(len(members))]
        case "all_gather":
            axis = _axis(call)
            gathered = [np.concatenate(parts, axis) for parts in zip(*outboxes, strict=True)]
            return [gathered] * len(members)
        case "all_to_all":
            return _transpose(outboxes)
        case "collective_permute":
            return _permute(call, members, outboxes)
        case "all_gather_v" | "all_to_all_v":
            return _Counted(call, members, outboxes).move()
        case _:
            # Rings: the predecessor's.
            return [list(outboxes[index - 1]) for index in range(len(members))]


def _reduce(call: Call, outboxes: Outboxes) -> list[Array]:
    apply = BINARY[str(call.attribute("op"))]
    totals = []
    for total, *others in zip(*outboxes, strict=True):
        for other in others:
            apply(total, other, total)
        totals.append(total)
    return totals


def _axis(call: Call) -> int:
    """The axis of (partitions, elements) that a gather grows; HBM has one partition."""
    is_rows = call.get("srcs0").memory is Memory.SBUF and call.attribute("collective_dim") == 0
    return 0 if is_rows else 1


def _transpose(outboxes: Outboxes) -> Inboxes:
    size = len(outboxes)
    parts = [[array.reshape(size, -1) for array in arrays] for arrays in outboxes]
    return [
        [np.concatenate([sent[index] for sent in slot]) for slot in zip(*parts, strict=True)]
        for index in range(size)
    ]


def _permute(call: Call, members: Sequence[int], outboxes: Outboxes) -> Inboxes:
    source_of = {target: members.index(source) for source, target in _lists(call, PAIRS)}
    inboxes = []
    for rank, arrays in zip(members, outboxes, strict=True):
        olds = list(arrays[1::2])
        inboxes.append(list(outboxes[source_of[rank]][::2]) if rank in source_of else olds)
    return inboxes


class _Counted:
    """One meeting of a `_v` form."""

    def __init__(self, call: Call, members: Sequence[int], outboxes: Outboxes) -> None:
        self._name = call.declaration.name
        self._members = members
        self._is_one_chunk = call.signature.op == "all_gather_v"
        self._has_starts = bool(call.attribute("has_rdispls"))
        self._has_counts = not call.attribute("recv_counts_known")
        sources, results, metadata = zip(*outboxes, strict=True)
        self._sources: list[Array] = [array.reshape(-1) for array in sources]
        self._results: list[Array] = [array.reshape(-1) for array in results]
        self._metadata: list[Array] = [table.reshape(-1, len(members)) for table in metadata]
        self._tables = [table.astype(np.int64) for table in self._metadata]

    def move(self) -> Inboxes:
        """Check the metadata and move every chunk."""
        for target in range(len(self._members)):
            for source in range(len(self._members)):
                self._move_chunk(source, target)
        if self._has_counts:
            return [[out, table] for out, table in zip(self._results, self._metadata, strict=True)]
        return [[out] for out in self._results]

    def _move_chunk(self, source: int, target: int) -> None:
        column = 0 if self._is_one_chunk else target
        count, start = (
            int(self._tables[source][row, column]) for row in (SEND_COUNTS, SEND_STARTS)
        )
        self._metadata[target][RECEIVE_COUNTS, source] = count
        if count == 0:
            return
        sent, out = self._sources[source], self._results[target]
        if start + count > sent.size:
            limit = f"{sent.size} elements of `srcs`"
            raise KernelError(self._outside("sends", (source, target), (start, count), limit))
        slot = out.size // len(self._members)
        place, end = slot * source, slot * (source + 1)
        if self._has_starts:
            place, end = int(self._tables[target][RECEIVE_STARTS, source]), out.size
        if place + count > end:
            limit = f"{out.size} elements of `dsts`"
            if not self._has_starts:
                limit = f"{place} to {end}, the slot in `dsts` for this sender"
            raise KernelError(self._outside("writes", (source, target), (place, count), limit))
        out[place : place + count] = sent[start : start + count]

    def _outside(
        self, verb: str, ends: tuple[int, int], chunk: tuple[int, int], limit: str
    ) -> Diagnostic:
        source, target = (self._members[end] for end in ends)
        what = f"elements that rank {source} sends to rank {target} by `{self._name}`"
        if verb == "writes":
            what = (
                f"place in `dsts` of rank {target} for what rank {source} sends by `{self._name}`"
            )
        return Diagnostic(
            code="NK202",
            what=what,
            got=f"{chunk[0]} to {chunk[0] + chunk[1]}",
            limit=limit,
            hint=f"rows of `{METADATA}` are send counts, send displacements, receive counts and,"
            " with `has_rdispls`, receive displacements, all in elements",
        )


COLLECTIVES: dict[str, Callable[[Site], None]] = {
    "all_gather": move_together,
    "all_gather_v": move_counted,
    "all_reduce": reduce_together,
    "all_to_all": move_together,
    "all_to_all_v": move_counted,
    "collective_permute": permute,
    "collective_permute_implicit": move_together,
    "collective_permute_implicit_reduce": permute_reduced,
    "reduce_scatter": reduce_together,
}
"""Handlers of the instructions at which ranks meet."""
