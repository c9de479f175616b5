"""Filters: what turns a candidate away, one candidate for each reason."""

from __future__ import annotations

import copy
import sys

import msgspec
import pytest

from nki_agent.corpus.candidate import Candidate, Passed
from nki_agent.corpus.filters import look_at
from nki_agent.corpus.record import BoundKind, Family, Reason, Rejection
from tests.corpus.candidates import HEAD, make_candidate

MORE = """INPUTS = {{"x": "float32[M, N]", "z": "float32[M, N]"}}
OUTPUTS = {{"y": "float32[M, N]"}}
TOLERANCE = "F2"


def reference(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return {result}
"""


def look(candidate: Candidate) -> Rejection:
    found = look_at(candidate)
    assert isinstance(found, Rejection)
    return found


def test_candidate_that_is_fit_passes_with_what_was_measured() -> None:
    found = look_at(make_candidate("torch.tanh(x) * F.relu(x + 0.5)"))
    assert isinstance(found, Passed)
    assert (found.rank, found.dtype, found.tolerance) == (2, "float32", "F2")
    assert found.bound in set(BoundKind)
    assert found.bound_ns > 0


def test_look_gives_the_same_again_and_leaves_nothing_behind() -> None:
    candidate = make_candidate("torch.tanh(x) + x")
    first = look_at(candidate)
    before = set(sys.modules)
    assert look_at(candidate) == first
    assert {n for n in set(sys.modules) - before if n.startswith("nki_agent_task_")} == set()


@pytest.mark.parametrize(
    ("result", "reason", "said"),
    [
        ("x.reshape(7, -1)", Reason.FAILS, "shape"),
        ("torch.tnah(x)", Reason.FAILS, "tnah"),
        ("torch.log(x)", Reason.NOT_FINITE, "NaN"),
        ("torch.sin(2000 * x)", Reason.NOISY, "tolerance"),
        ("0 * x + 1", Reason.CONSTANT, "depend"),
        ("x * torch.sigmoid(2000 * x)", Reason.SATURATED, "flat"),
        ("F.relu(torch.exp(x))", Reason.REDUNDANT, "relu"),
        ("torch.cos(-x)", Reason.REDUNDANT, "neg"),
        ("F.relu(F.relu(x)) + x", Reason.REDUNDANT, "relu"),
    ],
)
def test_candidate_is_turned_away_for_its_fault(result: str, reason: Reason, said: str) -> None:
    found = look(make_candidate(result))
    assert found.reason is reason
    assert said in found.detail
    assert "\n" not in found.detail


@pytest.mark.parametrize("result", ["x + 0 * z", "x + 1e-9 * torch.tanh(z)", "x.square()"])
def test_candidate_that_ignores_an_input_is_turned_away(result: str) -> None:
    source = HEAD.format(perf=4096) + MORE.format(result=result)
    assert look(make_candidate(source=source)).reason is Reason.IGNORES_INPUT


@pytest.mark.parametrize("perf", [64, 100_000])
def test_candidate_whose_bound_is_out_of_range_is_turned_away(perf: int) -> None:
    found = look(make_candidate("torch.tanh(x)", perf=perf))
    assert found.reason is Reason.BOUND
    assert "ns at the perf sizes" in found.detail


@pytest.mark.parametrize(
    "result",
    [
        "x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)",
        "1 / (1 + x.square())",
        "torch.exp(x - 1) / (x.abs().amax(dim=-1, keepdim=True) + 1)",
    ],
)
def test_guard_is_no_redundant_step(result: str) -> None:
    assert isinstance(look_at(make_candidate(result)), Passed)


def test_rejection_says_where_the_candidate_came_from() -> None:
    candidate = make_candidate("0 * x + 1")
    found = look(candidate)
    assert (found.id, found.family, found.pattern) == (candidate.id, Family.ELEMENTWISE, "tried")
    assert msgspec.json.decode(msgspec.json.encode(found), type=Rejection) == found


def test_what_passed_can_be_sent_to_another_process() -> None:
    found = look_at(make_candidate("torch.tanh(x) + x"))
    assert copy.deepcopy(found) == found
