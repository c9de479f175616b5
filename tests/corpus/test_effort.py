"""What bounds a task."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.corpus.effort import Effort, measure_effort
from nki_agent.corpus.record import BoundKind
from nki_agent.task.handed import HandedFiles
from nki_agent.task.loader import load_task
from tests.corpus.candidates import make_candidate


def measure(result: str, *, perf: int = 4096) -> Effort:
    source = make_candidate(result, perf=perf).source
    task = load_task(Path("tried.py"), handed=HandedFiles(source=source, modules={}))
    namespace: dict[str, object] = {}
    exec(source, namespace)
    return measure_effort(task, namespace)


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ("x.flip(-1)", BoundKind.MEMORY),
        ("F.relu(x)", BoundKind.MEMORY),
        ("torch.softmax(torch.tanh(x) * torch.sigmoid(x), dim=-1) * x", BoundKind.VECTOR),
        ("(x @ x.t()) @ x * 0.001", BoundKind.MATMUL),
    ],
)
def test_bound_comes_from_the_largest_of_three_times(result: str, kind: BoundKind) -> None:
    assert measure(result).kind is kind


def test_bound_grows_with_the_sizes() -> None:
    small, large = (measure("F.relu(x)", perf=size) for size in (2048, 4096))
    assert large.ns == pytest.approx(4 * small.ns, rel=0.01)
