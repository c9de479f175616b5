"""Every honest kernel of the repository passes the checker, and the judge where its task is known.

Law: no false refusal. A kernel that is added to one of these places is tried here by itself.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from nki_agent.base.diagnostic import Severity
from nki_agent.check.source import check_source
from nki_agent.chip.spec import Target, load_chip
from nki_agent.nki.current.tracing import trace_source
from nki_agent.program.validate import check_program
from nki_agent.task.task import Scope, Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from tests.builtin.conftest import MakeTask, make_task
from tests.builtin.test_golden import GOLDEN, KERNELS, golden_source
from tests.builtin.test_indexing import LONG, READ
from tests.cheats.conftest import LoadTask
from tests.cheats.trick import FOLDER, read_tricks
from tests.fuzz.corpus import BODIES, OUT, X
from tests.kernels import SOFTMAX, body
from tests.source import ROOT

__all__ = ["make_task"]
HONEST = [t for t in read_tricks() if t.is_honest]
EXAMPLES = sorted((ROOT / "examples" / "kernels").glob("*.py"))
BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))


def errors(source: str) -> list[str]:
    """Errors of the checker."""
    found = check_source({"kernel.py": source}, "kernel.py", target=Target.TRN2)
    return [str(f) for f in found if f.severity is Severity.ERROR]


def kernels_of(name: str) -> list[str]:
    """Texts of a benchmark that are whole kernel files as they stand."""
    values = vars(importlib.import_module(f"benchmarks.{name}")).values()
    texts = [value for value in values if isinstance(value, str) and "@nki.jit" in value]
    return [text for text in texts if "{" not in text and "import nki\n" in text]


def test_each_place_has_kernels() -> None:
    assert EXAMPLES
    assert HONEST
    assert len([source for name in BENCHMARKS for source in kernels_of(name)]) >= 5
    # Those by index are judged where they are made, at two sizes.
    elsewhere = {*READ, *(f"{case.name} in strips" for case in LONG)}
    assert {k.name for k in KERNELS} | elsewhere == {p.stem for p in GOLDEN.glob("*.txt")}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_example_passes_the_checker(path: Path) -> None:
    assert errors(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", BENCHMARKS)
def test_kernel_of_a_benchmark_passes_the_checker(name: str) -> None:
    for source in kernels_of(name):
        assert errors(source) == []


@pytest.mark.parametrize("name", ["softmax", *BODIES])
def test_kernel_of_the_tests_passes_checker_tracer_and_validation(name: str) -> None:
    source = SOFTMAX if name == "softmax" else body(OUT + BODIES[name])
    source += "\n\ngrid = (2,)\n" if name == "two cores" else ""
    assert errors(source) == []
    reply = trace_source(source, [X])
    assert reply.program is not None
    assert check_program(reply.program, load_chip(Target.TRN2)) == []


@pytest.mark.parametrize("operator", KERNELS, ids=lambda o: o.name)
def test_golden_kernel_of_the_author_is_right(
    judge: Judge, make_task: MakeTask, operator: object
) -> None:
    (found,) = [k for k in KERNELS if k is operator]
    source = (GOLDEN / f"{found.name}.txt").read_text(encoding="utf-8")
    assert errors(source) == []
    task = make_task(golden_source(found))
    verdict = judge.judge(Kernel.from_text(source), task, root_seed=3, scope=Scope.ALL)
    assert verdict.right, [str(d) for d in verdict.diagnostics]


def test_kernel_of_the_tests_is_right(judge: Judge, softmax: Task) -> None:
    assert judge.judge(Kernel.from_text(SOFTMAX), softmax, root_seed=3).right


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", [t.name for t in HONEST])
def test_honest_control_is_right_under_any_seed(
    judge: Judge, load: LoadTask, name: str, seed: int
) -> None:
    (trick,) = [t for t in HONEST if t.name == name]
    assert (FOLDER / f"{name}.py").is_file()
    verdict = judge.judge(trick.kernel, load(trick.task), root_seed=seed, scope=Scope.ALL)
    assert verdict.right, [str(d) for d in verdict.diagnostics]
