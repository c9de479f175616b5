"""Every trick ends where it must, and harms neither the judge nor the next kernel.

Law: a trick is never `right` and never an exception of ours. It has its outcome twice: with the
checker of the source, which only names tricks early, and without it, since what protects the
verdict is that no kernel sees data and that nothing its process says is believed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
import pytest

from nki_agent.base.diagnostic import TEXT_LIMIT, Diagnostic, Severity
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.task.task import Scope, Task
from nki_agent.verify import compiling
from nki_agent.verify.judge import Judge
from nki_agent.verify.verdict import Stage, Verdict
from tests.cheats.conftest import LoadTask
from tests.cheats.trick import CONTROL, Outcome, Trick, read_tricks

TRICKS = read_tricks()
HONEST = next(t for t in TRICKS if t.name == CONTROL)
ROOT_SEED = 11
VERDICT_BYTES_MAX = 100_000


def find_nothing(
    files: Mapping[str, str], main: str, *, target: Target, surface: Surface
) -> list[Diagnostic]:
    """A checker that every trick gets past."""
    return []


def check_outcome(verdict: Verdict, outcome: Outcome, name: str) -> None:
    """Stage and code are what the header says, and all text is harmless."""
    assert verdict.stage is outcome.stage, [str(d) for d in verdict.diagnostics]
    assert verdict.right == name.startswith(CONTROL)
    errors = {d.code for d in verdict.diagnostics if d.severity is Severity.ERROR}
    assert errors if outcome.code == "-" and not verdict.right else True
    assert outcome.code == "-" or outcome.code in errors
    assert verdict.right or verdict.latency_ns is None
    encoded = msgspec.json.encode(verdict)
    assert len(encoded) < VERDICT_BYTES_MAX
    for finding in verdict.diagnostics:
        assert all(line.isprintable() for line in str(finding).split("\n"))
        for text in (finding.what, finding.got, finding.limit, finding.hint):
            assert len(text) <= TEXT_LIMIT
            assert not re.search(r" at 0x[0-9a-f]", text)


def check_next_kernel(judge: Judge, task: Task) -> None:
    """An honest kernel is still right."""
    verdict = judge.judge(HONEST.kernel, task, root_seed=ROOT_SEED + 1)
    assert verdict.right, [str(d) for d in verdict.diagnostics]


def test_control_is_right() -> None:
    controls = [t for t in TRICKS if t.name.startswith(CONTROL)]
    assert all(t.outcome == t.behind == Outcome(Stage.RIGHT, "-") for t in controls)
    assert [t for t in TRICKS if Stage.RIGHT in (t.outcome.stage, t.behind.stage)] == controls


@pytest.mark.parametrize("trick", TRICKS, ids=lambda t: t.name)
def test_trick_ends_as_its_header_says(
    judge: Judge, softmax: Task, load: LoadTask, trick: Trick
) -> None:
    task = load(trick.task)
    verdict = judge.judge(trick.kernel, task, root_seed=ROOT_SEED, scope=Scope.ALL)
    check_outcome(verdict, trick.outcome, trick.name)
    check_next_kernel(judge, softmax)


@pytest.mark.parametrize(
    "trick",
    [t for t in TRICKS if t.outcome.stage in (Stage.CHEAT, Stage.REFUSED) or t.is_honest],
    ids=lambda t: t.name,
)
def test_trick_that_the_checker_misses_ends_as_its_header_says(
    judge: Judge, softmax: Task, load: LoadTask, trick: Trick, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "check_source", find_nothing)
    task = load(trick.task)
    verdict = judge.judge(trick.kernel, task, root_seed=ROOT_SEED, scope=Scope.ALL)
    check_outcome(verdict, trick.behind, trick.name)
    check_next_kernel(judge, softmax)
