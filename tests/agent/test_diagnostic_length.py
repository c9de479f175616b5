"""Diagnostics are short as a model reads them, over the faults that other rooms' tests have.

Law: at most 400 tokens (bytes over four) at the median and 1,200 at most, and whole answers too.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from nki_agent.agent.answers import Draft, write_look
from nki_agent.agent.brief import write_brief
from nki_agent.base.catalogue import CATALOGUE
from nki_agent.base.diagnostic import Diagnostic
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look
from tests.agent.test_drafts import CASES
from tests.conformance.refused_faults import REFUSED_FAULTS

BYTES_PER_TOKEN = 4
MEDIAN_MAX, MOST = 400, 1200
SOURCES = (*(draft.kernel for draft in CASES), *(fault.text for fault in REFUSED_FAULTS))
CHEATS = Path(__file__).parents[1] / "cheats" / "kernels"
HARMLESS = ("chain", "error", "names", "message", "constant", "changes", "reads")
"""Beginnings of cheats that end at once."""


def count_tokens(text: str) -> float:
    return len(text.encode()) / BYTES_PER_TOKEN


def list_sources() -> Iterator[str]:
    yield from SOURCES
    for path in sorted(CHEATS.glob("*.py")):
        if path.name.startswith(HARMLESS):
            yield path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def looks(judge: Judge, task: Task) -> list[tuple[str, Look]]:
    sources = list(dict.fromkeys(list_sources()))
    return [(source, judge.look(Kernel.from_text(source), task.dev)) for source in sources]


def test_diagnostics_are_short(looks: list[tuple[str, Look]], judge: Judge) -> None:
    cheats = [path.read_text(encoding="utf-8") for path in sorted(CHEATS.glob("*.py"))]
    checked = [d for source in cheats for d in judge.check(Kernel.from_text(source))]
    found = list(dict.fromkeys((*checked, *(d for _, look in looks for d in look.diagnostics))))
    sizes = [count_tokens(write_brief(diagnostic)) for diagnostic in found]
    assert len(found) >= 100
    assert len({diagnostic.code for diagnostic in found}) >= 15
    assert statistics.median(sizes) <= MEDIAN_MAX
    assert max(sizes) <= MOST


def test_answers_are_short_even_with_rule_and_pattern(looks: list[tuple[str, Look]]) -> None:
    sizes = [
        count_tokens(write_look(look, Draft(source=source, times=3, target=Target.TRN2)))
        for source, look in looks
    ]
    assert statistics.median(sizes) <= MEDIAN_MAX
    assert max(sizes) <= MOST


def test_every_rule_is_short() -> None:
    rules = [
        Diagnostic(code=info.code, what=info.explanation, hint=info.hint)
        for info in CATALOGUE.values()
    ]
    assert max(count_tokens(write_brief(rule)) for rule in rules) <= MEDIAN_MAX
