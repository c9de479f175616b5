"""The order of a turn's steps: engines wait least, and what needs each other stays in order."""

from __future__ import annotations

from nki_agent.builtin.balance import Estimate
from nki_agent.builtin.tile_steps import Activate, Combine, Kind, Step, Tile
from nki_agent.builtin.turns import in_turns
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType

ESTIMATE = Estimate(load_chip(Target.TRN2), 64)


def _tile(name: str) -> Tile:
    return Tile(name=name, kind=Kind.FULL, dtype=DType.FLOAT32, level=1)


def _chain(name: str) -> list[Step]:
    """A gate of two engines: an activation, and a product with it."""
    x, gate, out = (_tile(f"{name}_{part}") for part in ("x", "gate", "out"))
    return [
        Activate(dst=gate, function="sigmoid", data=x),
        Combine(dst=out, first=gate, second=x, op="multiply"),
    ]


def test_chains_that_know_nothing_of_each_other_take_turns() -> None:
    first, second = _chain("a"), _chain("b")
    ordered = in_turns([*first, *second], ESTIMATE, {})
    assert ordered == (first[0], second[0], first[1], second[1])


def test_step_whose_product_is_late_waits_behind_the_others() -> None:
    late, early = _chain("a"), _chain("b")
    ordered = in_turns([*late, *early], ESTIMATE, {_tile("a_x"): 5000.0})
    assert ordered == (*early, *late)


def test_tile_that_is_written_anew_is_read_before() -> None:
    kept, read, written = _tile("kept"), _tile("read"), _tile("x")
    steps: list[Step] = [
        Activate(dst=read, function="tanh", data=kept),
        Combine(dst=kept, first=written, second=written, op="add"),
    ]
    assert in_turns(steps, ESTIMATE, {kept: 5000.0}) == tuple(steps)
