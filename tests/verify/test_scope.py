"""What a verdict covers: the shapes for correctness, and those whose speed is claimed."""

from pathlib import Path

import pytest

from nki_agent.task.loader import load_task
from nki_agent.task.task import Scope, Task
from nki_agent.verify import compiling
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict

TASK = """
import torch

SHAPES = {"dev": {"M": 40, "N": 48}, "odd": {"M": 7, "N": 33}, "perf": {"M": 256, "N": 512}}
INPUTS = {"x": "float32[M, N]"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F1"


def reference(x):
    return x + 1.0
"""
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    for start in range(0, rows, 128):
        height = min(128, rows - start)
        tile = nl.ndarray((height, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + height, :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=ADDED)
        nisa.dma_copy(dst=out[start : start + height, :], src=tile)
    return out
"""
HONEST = KERNEL.replace("ADDED", "1.0")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    path = tmp_path / "plus_one.py"
    path.write_text(TASK)
    return load_task(path)


def judged(judge: Judge, task: Task, source: str, scope: Scope) -> Verdict:
    return judge.judge(Kernel.from_text(source), task, root_seed=3, scope=scope)


def test_proof_has_five_trials_at_dev_and_one_at_the_odd_shapes(judge: Judge, task: Task) -> None:
    verdict = judged(judge, task, HONEST, Scope.PROOF)
    assert verdict.right, verdict.diagnostics
    assert [t.shapes for t in verdict.trials] == ["dev"] * 5 + ["odd"]
    assert verdict.speed_shapes == "dev"


def test_claim_is_a_trial_at_perf_and_its_speed(judge: Judge, task: Task) -> None:
    proof = judged(judge, task, HONEST, Scope.PROOF)
    claim = judged(judge, task, HONEST, Scope.CLAIM)
    both = judged(judge, task, HONEST, Scope.ALL)
    assert [t.shapes for t in claim.trials] == ["perf"]
    assert [t.shapes for t in both.trials] == ["dev"] * 5 + ["odd", "perf"]
    assert both.latency_ns == claim.latency_ns
    assert claim.speed_shapes == "perf"
    assert claim.bound_ns is not None
    assert proof.bound_ns is not None
    assert claim.bound_ns > 10 * proof.bound_ns


@pytest.mark.parametrize(
    ("rows", "scope", "stage"),
    [
        (7, Scope.PROOF, Stage.WRONG),
        (256, Scope.PROOF, Stage.RIGHT),
        (256, Scope.CLAIM, Stage.WRONG),
        (256, Scope.ALL, Stage.WRONG),
    ],
)
def test_kernel_that_is_wrong_at_one_shape_is_wrong_where_that_is_tried(
    judge: Judge, task: Task, rows: int, scope: Scope, stage: Stage
) -> None:
    source = KERNEL.replace("ADDED", f"2.0 if rows == {rows} else 1.0")
    verdict = judged(judge, task, source, scope)
    assert verdict.stage is stage
    assert (verdict.latency_ns is None) == (stage is not Stage.RIGHT)
    wanted = {7: "odd (`x` [7, 33])", 256: "perf (`x` [256, 512])"}[rows]
    assert verdict.failed_at == (None if stage is Stage.RIGHT else wanted)


def test_kernel_that_refuses_a_shape_is_not_right(judge: Judge, task: Task) -> None:
    source = HONEST.replace("    out =", "    assert x.shape[0] < 100\n    out =")
    assert judged(judge, task, source, Scope.PROOF).right
    assert judged(judge, task, source, Scope.CLAIM).stage is Stage.UNTRACEABLE


def test_trace_that_an_earlier_one_spoils_is_made_anew(
    judge: Judge, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "check_source", lambda *_arguments, **_keywords: [])
    spoiling = "import math\n\nassert not hasattr(math, 'seen')\nmath.seen = 1\n"
    verdict = judged(judge, task, spoiling + HONEST, Scope.ALL)
    assert verdict.right, verdict.diagnostics
    assert [t.shapes for t in verdict.trials] == ["dev"] * 5 + ["odd", "perf"]
