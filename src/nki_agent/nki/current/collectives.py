"""`nki.collectives`: what several ranks do together, as functions over the declared instructions.

Law: ranks run one Program; a rank's own number is a register, known at run time only.
Source: nki.collectives (0.6.0).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nki_agent.nki.current.allocation import ISA
from nki_agent.nki.current.control import register_alloc
from nki_agent.nki.current.recorder import fail
from nki_agent.nki.current.register import VirtualRegister
from nki_agent.nki.current.tensor import NkiTensor

COLLECTIVES: dict[str, object] = {}
"""Every public name of `nki.collectives`."""
Lists = Sequence[Sequence[NkiTensor]]


def _public(function: Callable[..., Any]) -> Callable[..., Any]:
    COLLECTIVES[function.__name__] = function
    return function


class ReplicaGroup:
    """Lists of ranks that take part together; the lists do not overlap."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        """`groups` as in [[0, 1], [2, 3]]."""
        self.groups = groups


COLLECTIVES["ReplicaGroup"] = ReplicaGroup


def _ranks(value: object, what: str) -> Sequence[Sequence[int]]:
    if not isinstance(value, ReplicaGroup):
        hint = "`ncc.ReplicaGroup([[0, 1, 2, 3]])`"
        got = type(value).__name__
        fail("NK308", f"`replica_group` of `{what}`", got=got, limit="a ReplicaGroup", hint=hint)
    return value.groups


def _flat(value: object, what: str) -> list[NkiTensor]:
    """The one tensor of each channel."""
    lists = value if isinstance(value, list | tuple) else ()
    good = bool(lists) and all(isinstance(c, list | tuple) and len(c) == 1 for c in lists)
    if not good:
        limit = "one list for each channel, with one tensor each"
        fail("NK308", what, got=type(value).__name__, limit=limit)
    return [channel[0] for channel in lists]


@_public
def all_reduce(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    op: object,
    priority: int | None = None,
    name: str | None = None,
) -> object:
    """Each rank's `dsts` get the reduction of all ranks' `srcs`."""
    groups = _ranks(replica_group, "all_reduce")
    return ISA["all_reduce"](srcs, dsts, groups, op, priority, name=name)


@_public
def all_gather(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> object:
    """Each rank's `dsts` get all ranks' `srcs`, one after the other."""
    groups = _ranks(replica_group, "all_gather")
    return ISA["all_gather"](srcs, dsts, groups, collective_dim, priority, name=name)


@_public
def all_gather_v(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> object:
    """Each rank sends one run of elements, whose length it knows at run time, to all."""
    groups = _ranks(replica_group, "all_gather_v")
    flags = (metadata_tensor, recv_counts_known, has_rdispls)
    return ISA["all_gather_v"](srcs, dsts, groups, *flags, priority, name=name)


@_public
def reduce_scatter(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: object,
    priority: int | None = None,
    name: str | None = None,
) -> object:
    """Each rank's `dsts` get its own part of the reduction of all ranks' `srcs`."""
    groups = _ranks(replica_group, "reduce_scatter")
    return ISA["reduce_scatter"](srcs, dsts, groups, collective_dim, op, priority, name=name)


@_public
def all_to_all(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> object:
    """Part i of each rank's `srcs` goes to rank i of the list."""
    groups = _ranks(replica_group, "all_to_all")
    return ISA["all_to_all"](srcs, dsts, groups, collective_dim, priority, name=name)


@_public
def all_to_all_v(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    replica_group: ReplicaGroup,
    metadata_tensor: NkiTensor,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> object:
    """Each rank sends runs of elements, whose lengths it knows at run time, to each other rank."""
    groups = _ranks(replica_group, "all_to_all_v")
    flags = (metadata_tensor, recv_counts_known, has_rdispls)
    return ISA["all_to_all_v"](srcs, dsts, groups, *flags, priority, name=name)


@_public
def collective_permute(
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    source_target_pairs: Sequence[tuple[int, int]],
    priority: int | None = None,
    name: str | None = None,
) -> object:
    """The target of each pair gets its source's tensor."""
    return ISA["collective_permute"](srcs, dsts, source_target_pairs, priority, name=name)


@_public
def collective_permute_implicit(
    srcs_by_channel: Lists,
    dsts_by_channel: Lists,
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> object:
    """Each rank sends to its successor in the ring and receives from its predecessor."""
    what = "collective_permute_implicit"
    groups = _ranks(replica_group, what)
    srcs = _flat(srcs_by_channel, f"`srcs_by_channel` of `{what}`")
    dsts = _flat(dsts_by_channel, f"`dsts_by_channel` of `{what}`")
    return ISA[what](srcs, dsts, groups, tuple(channel_ids), priority, name=name)


@_public
def collective_permute_implicit_reduce(
    srcs0_by_channel: Lists,
    srcs1_by_channel: Lists,
    dsts_by_channel: Lists,
    replica_group: ReplicaGroup,
    op: object,
    channel_ids: Sequence[int] = (0,),
    priority: int | None = None,
    name: str | None = None,
) -> object:
    """The ring permute of `op(srcs0, srcs1)`."""
    what = "collective_permute_implicit_reduce"
    groups = _ranks(replica_group, what)
    lists = [
        _flat(value, f"`{label}` of `{what}`")
        for label, value in (
            ("srcs0_by_channel", srcs0_by_channel),
            ("srcs1_by_channel", srcs1_by_channel),
            ("dsts_by_channel", dsts_by_channel),
        )
    ]
    return ISA[what](*lists, groups, op, tuple(channel_ids), priority, name=name)


@_public
def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int,
    replica_group: ReplicaGroup,
    channel_id: int = 0,
    name: str | None = None,
) -> VirtualRegister:
    """A register with the rank whose data is processed in this step of the ring."""
    what = "collective_permute_implicit_current_processing_rank_id"
    register = register_alloc()
    groups = _ranks(replica_group, what)
    ISA[what](register, iteration_id, groups, channel_id, name=name)
    return register


@_public
def rank_id(name: str | None = None) -> VirtualRegister:
    """A register with the number of this rank."""
    register = register_alloc()
    ISA["rank_id"](register, name=name)
    return register
