"""Declarations of what several ranks do together.

A replica group is a tuple of rank lists; a rank takes part with its own list. Ranks run one
Program, each on arguments of its own. Source: nki.collectives (0.6.0).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.declaration import (
    Call,
    Declaration,
    Kind,
    Parameter,
    Rule,
    any_of,
    option,
    update,
)
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ANY_HBM, Engine, Memory
from nki_agent.isa.passes import free_of_charge
from nki_agent.isa.rules import reduction_op
from nki_agent.isa.signature import Operand

REACH = (Memory.SBUF, *ANY_HBM)
HBM = ANY_HBM
CHANNELS_MAX = 4
METADATA_ROWS = 3


def _many(name: str, kind: Kind, memories: tuple[Memory, ...]) -> Parameter:
    return Parameter(name=name, kind=kind, memories=memories)


def _elems(operand: Operand) -> int:
    return operand.pattern.partitions * operand.pattern.free_elems


def _group(call: Call, name: str) -> list[Operand]:
    """The operands of one list."""
    return [o for o in call.signature.operands if call.declaration.parameter(o.role).name == name]


def _finding(call: Call, what: str, got: object, limit: object, hint: str) -> Diagnostic:
    name = call.declaration.name
    text = f"{what} of `{name}`"
    return Diagnostic(code="NK308", what=text, got=str(got), limit=str(limit), hint=hint)


def _group_size(call: Call) -> int:
    groups = call.attribute("replica_group")
    assert isinstance(groups, tuple)
    first = groups[0] if groups else ()
    return len(first) if isinstance(first, tuple) else 0


def _replica_group(call: Call) -> Iterator[Diagnostic]:
    groups = call.attribute("replica_group")
    assert isinstance(groups, tuple)
    lists = [g for g in groups if isinstance(g, tuple)]
    ranks = [r for g in lists for r in g]
    same = len({len(g) for g in lists}) == 1 and len(lists) == len(groups)
    if not same or not ranks or len(set(ranks)) != len(ranks) or min(ranks) < 0:
        limit = "lists of different ranks, all of one length"
        yield _finding(call, "`replica_group`", groups, limit, "for example [[0, 1], [2, 3]]")


def _one_memory(call: Call) -> Iterator[Diagnostic]:
    tensors = [o for o in call.signature.operands if "metadata" not in o.role]
    on_chip = {o.memory is Memory.SBUF for o in tensors}
    if len(on_chip) > 1:
        yield Diagnostic(
            code="NK301",
            what=f"memories of `{call.declaration.name}`",
            got="HBM and SBUF",
            limit="one of them for all tensors",
            hint="copy the tensors to one memory first",
        )
    elif on_chip == {True} and len(tensors) > len(("src", "dst")):
        got = f"{len(tensors)} tensors in SBUF"
        hint = "coalesce tensors in HBM, or call it once for each"
        yield _finding(call, "number of tensors", got, "one source and one destination", hint)


def _cast(call: Call, src: Operand, dst: Operand) -> Diagnostic:
    return Diagnostic(
        code="NK302",
        what=f"dtype of `{dst.role}` of `{call.declaration.name}`",
        got=dst.dtype.value,
        limit=f"{src.dtype.value}, as `{src.role}`",
        hint="collectives do not cast",
    )


def _sizes(first: str, second: str, factor: str) -> Rule:
    """Elements of each destination against its source: same, times or over the group's size."""

    def rule(call: Call) -> Iterator[Diagnostic]:
        sources, results = _group(call, first), _group(call, second)
        if not sources or len(sources) != len(results):
            got = f"{len(sources)} and {len(results)}"
            hint = "give each source its destination"
            yield _finding(call, f"numbers of `{first}` and `{second}`", got, "equal", hint)
            return
        size = _group_size(call) if factor != "same" else 1
        for src, dst in zip(sources, results, strict=True):
            wanted = _elems(src) * size if factor != "over" else math.ceil(_elems(src) / size)
            if _elems(dst) != wanted or (factor == "over" and _elems(src) % size):
                yield Diagnostic(
                    code="NK310",
                    what=f"elements of `{dst.role}` of `{call.declaration.name}`",
                    got=str(_elems(dst)),
                    limit=f"{wanted}, from {_elems(src)} elements of `{src.role}` and {size} ranks",
                    hint="check the shapes against the size of the replica group",
                )
            if dst.dtype is not src.dtype:
                yield _cast(call, src, dst)

    return rule


def _dim(*allowed_on_chip: int) -> Rule:
    def rule(call: Call) -> Iterator[Diagnostic]:
        on_chip = any(o.memory is Memory.SBUF for o in call.signature.operands)
        allowed = allowed_on_chip if on_chip else (0,)
        if call.attribute("collective_dim") not in allowed:
            found = call.attribute("collective_dim")
            limit = " or ".join(map(str, allowed))
            yield _finding(
                call, "`collective_dim`", found, limit, "split along the first dimension"
            )

    return rule


def _pairs(call: Call) -> Iterator[Diagnostic]:
    pairs = call.attribute("source_target_pairs")
    assert isinstance(pairs, tuple)
    good = all(isinstance(p, tuple) and len(p) == len(("source", "target")) for p in pairs)
    if good:
        ends = list(zip(*(p for p in pairs if isinstance(p, tuple)), strict=True))
        good = all(len(set(end)) == len(end) for end in ends) and bool(pairs)
    if not good:
        limit = "pairs (source, target), each rank once on each side"
        yield _finding(call, "`source_target_pairs`", pairs, limit, "for example [(0, 1), (1, 0)]")


def _channels(call: Call) -> Iterator[Diagnostic]:
    ids = call.attribute("channel_ids")
    names = [p.name for p in call.declaration.parameters if p.kind in (Kind.INPUTS, Kind.OUTPUTS)]
    counts = {len(_group(call, name)) for name in names}
    assert isinstance(ids, tuple)
    if ids != tuple(range(len(ids))) or counts != {len(ids)} or len(ids) > CHANNELS_MAX:
        limit = f"0, 1, ... up to {CHANNELS_MAX} channels, one tensor a channel in each list"
        yield _finding(call, "`channel_ids`", ids, limit, "use [0] for one channel")


def _metadata(call: Call) -> Iterator[Diagnostic]:
    rows = METADATA_ROWS + bool(call.attribute("has_rdispls"))
    size = _group_size(call)
    found = call.get("metadata_tensor")
    wanted = (1, rows, size) if found.memory is Memory.SBUF else (rows, size)
    if found.shape != wanted:
        yield Diagnostic(
            code="NK304",
            what=f"shape of `metadata_tensor` of `{call.declaration.name}`",
            got=str(list(found.shape)),
            limit=str(list(wanted)),
            hint="rows: send counts, send displacements, receive counts, receive displacements",
        )
    yield from _one_tensor(call)
    src, dst = _group(call, "srcs")[:1], _group(call, "dsts")[:1]
    if src and dst and src[0].dtype is not dst[0].dtype:
        yield _cast(call, src[0], dst[0])
    if dst and not call.attribute("has_rdispls") and size and _elems(dst[0]) % size:
        got = str(_elems(dst[0]))
        hint = "each rank that sends has a slot of one size"
        yield _finding(call, "elements of `dsts`", got, f"a multiple of the {size} ranks", hint)


def _one_tensor(call: Call) -> Iterator[Diagnostic]:
    for name in ("srcs", "dsts"):
        if len(_group(call, name)) != 1:
            yield _finding(call, f"number of `{name}`", len(_group(call, name)), "1", "one tensor")


def _even_split(call: Call) -> Iterator[Diagnostic]:
    size = _group_size(call)
    for operand in _group(call, "srcs"):
        if size and _elems(operand) % size:
            got, limit = _elems(operand), f"a multiple of the {size} ranks"
            yield _finding(call, f"elements of `{operand.role}`", got, limit, "pad the tensor")


def _tiles(call: Call) -> Iterator[Diagnostic]:
    """In SBUF, tiles [P, F] whose sizes differ along the collective's dimension only."""
    sources, results = _group(call, "srcs"), _group(call, "dsts")
    if len(sources) != 1 or len(results) != 1 or sources[0].memory is not Memory.SBUF:
        return
    name, size = call.declaration.name, max(_group_size(call), 1)
    found, limit = str(list(sources[0].shape)), "two dimensions"
    if len(sources[0].shape) == len(("partitions", "free")):
        wanted = list(sources[0].shape)
        dim = 1 if name == "all_gather" and call.attribute("collective_dim") == 1 else 0
        wanted[dim] *= size if name == "all_gather" else 1
        wanted[dim] //= size if name == "reduce_scatter" else 1
        found, limit = str(list(results[0].shape)), str(wanted)
    if found != limit:
        yield Diagnostic(
            code="NK304",
            what=f"shape of a tile in SBUF of `{name}`",
            got=found,
            limit=limit,
            hint="tiles in SBUF are [P, F]; the destination's shape follows from `collective_dim`",
        )


_GROUP = option("replica_group", Kind.GROUPS)
_PRIORITY = option("priority", Kind.INT, None, first_generation=4)
_OP = option("op", Kind.ALU_OP)
_REDUCES = reduction_op("op", "add", "minimum", "maximum")


def _declare(
    name: str, parameters: tuple[Parameter, ...], *rules: Rule, with_priority: bool = True
) -> Declaration:
    return Declaration(
        name=name,
        parameters=(*parameters, _PRIORITY) if with_priority else parameters,
        engines=any_of(Engine.DMA),
        rules=rules,
        cycles=None if with_priority else free_of_charge,
        page=f"nki.collectives.{name}",
    )


def _lists(memories: tuple[Memory, ...]) -> tuple[Parameter, Parameter]:
    return _many("srcs", Kind.INPUTS, memories), _many("dsts", Kind.OUTPUTS, memories)


_VARIABLE = (
    update("metadata_tensor", *REACH, dtypes=(DType.UINT32,)),
    option("recv_counts_known", Kind.FLAG, default=False),
    option("has_rdispls", Kind.FLAG, default=False),
)
_CHANNEL_IDS = option("channel_ids", Kind.INTS, (0,))

COLLECTIVE = (
    _declare(
        "all_reduce",
        (*_lists(REACH), _GROUP, _OP),
        *(_replica_group, _one_memory, _sizes("srcs", "dsts", "same"), _tiles, _REDUCES),
    ),
    _declare(
        "all_gather",
        (*_lists(REACH), _GROUP, option("collective_dim", Kind.INT)),
        *(_replica_group, _one_memory, _sizes("srcs", "dsts", "times"), _dim(0, 1), _tiles),
    ),
    _declare(
        "reduce_scatter",
        (*_lists(REACH), _GROUP, option("collective_dim", Kind.INT), _OP),
        *(_replica_group, _one_memory, _sizes("srcs", "dsts", "over"), _dim(0)),
        *(_tiles, _REDUCES),
    ),
    _declare(
        "all_to_all",
        (*_lists(HBM), _GROUP, option("collective_dim", Kind.INT)),
        *(_replica_group, _sizes("srcs", "dsts", "same"), _even_split, _dim(0)),
    ),
    _declare("all_gather_v", (*_lists(HBM), _GROUP, *_VARIABLE), _replica_group, _metadata),
    _declare("all_to_all_v", (*_lists(HBM), _GROUP, *_VARIABLE), _replica_group, _metadata),
    _declare(
        "collective_permute",
        (*_lists(HBM), option("source_target_pairs", Kind.GROUPS)),
        *(_pairs, _one_tensor, _sizes("srcs", "dsts", "same")),
    ),
    _declare(
        "collective_permute_implicit",
        (
            _many("srcs_by_channel", Kind.INPUTS, HBM),
            _many("dsts_by_channel", Kind.OUTPUTS, HBM),
            *(_GROUP, _CHANNEL_IDS),
        ),
        *(_replica_group, _channels, _sizes("srcs_by_channel", "dsts_by_channel", "same")),
    ),
    _declare(
        "collective_permute_implicit_reduce",
        (
            _many("srcs0_by_channel", Kind.INPUTS, HBM),
            _many("srcs1_by_channel", Kind.INPUTS, HBM),
            _many("dsts_by_channel", Kind.OUTPUTS, HBM),
            *(_GROUP, _OP, _CHANNEL_IDS),
        ),
        *(_replica_group, _channels, _sizes("srcs0_by_channel", "dsts_by_channel", "same")),
        *(_sizes("srcs1_by_channel", "dsts_by_channel", "same"), _REDUCES),
    ),
    _declare(
        "collective_permute_implicit_current_processing_rank_id",
        (
            option("dst", Kind.REGISTER),
            option("iteration_id", Kind.INT),
            *(_GROUP, option("channel_id", Kind.INT, 0)),
        ),
        _replica_group,
        with_priority=False,
    ),
    _declare("rank_id", (option("dst", Kind.REGISTER),), with_priority=False),
)
"""Collectives over ranks; the last two write a register, which their functions return."""
