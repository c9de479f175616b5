"""The judge: each stage of the ladder, and that nothing wrong passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from numpy.typing import NDArray

from nki_agent.base.errors import MachineError
from nki_agent.chip.spec import Target
from nki_agent.task.family import FamilyScale
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict
from tests.kernels import HEAD, SOFTMAX, body

OUT = "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
COPY = (
    OUT + "for i in range(0, 200, 100):\n"
    "    t = nl.load(x[i:i + 100, :])\n"
    "    nl.store(out[i:i + 100, :], t)\n"
    "return out"
)


def judged(judge: Judge, task: Task, source: str, *, seed: int = 5) -> Verdict:
    """The verdict on one source."""
    return judge.judge(Kernel.from_text(source), task, root_seed=seed)


def test_right_kernel_has_five_trials_a_latency_and_a_bound(judge: Judge, softmax: Task) -> None:
    verdict = judged(judge, softmax, SOFTMAX)
    assert verdict.stage is Stage.RIGHT, [str(d) for d in verdict.diagnostics]
    assert [t.family for t in verdict.trials] == ["standard"] * 3 + ["big", "tiny"]
    assert all(o.ratio < 1 for t in verdict.trials for o in t.outputs)
    assert verdict.latency_ns is not None
    assert verdict.bound_ns is not None
    assert 0 < verdict.bound_ns < verdict.latency_ns
    assert verdict.percent_of_bound == pytest.approx(100 * verdict.bound_ns / verdict.latency_ns)
    assert verdict.limited_by


def test_verdict_is_the_same_for_the_same_seed_but_for_its_wall_time(
    judge: Judge, softmax: Task
) -> None:
    first, second = (
        msgspec.structs.replace(judged(judge, softmax, SOFTMAX), wall_ms=0.0) for _ in range(2)
    )
    assert first == second
    other = judged(judge, softmax, SOFTMAX, seed=6)
    assert other.trials[0].seed != first.trials[0].seed


def test_verdict_round_trips_as_json(judge: Judge, softmax: Task) -> None:
    verdict = judged(judge, softmax, SOFTMAX)
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


@pytest.mark.parametrize(
    ("source", "stage", "code"),
    [
        (body(COPY), Stage.WRONG, "NK501"),
        (SOFTMAX.replace("operand0=total", "operand0=2.0"), Stage.WRONG, "NK501"),
        (SOFTMAX.replace(", bias=top", ""), Stage.WRONG, "NK502"),
        (SOFTMAX.replace("negate=True", "negate=False"), Stage.WRONG, "NK50"),
        (SOFTMAX.replace("range(0, rows, 128)", "range(0, 128, 128)"), Stage.UNFIT, "NK208"),
        (
            SOFTMAX.replace("nisa.dma_copy(dst=tile, src=x[start:start + size, :])", "pass"),
            Stage.CHEAT,
            "NK901",
        ),
        (
            SOFTMAX.replace(
                "dtype=x.dtype, buffer=nl.shared_hbm", "dtype=nl.bfloat16, buffer=nl.shared_hbm"
            ),
            Stage.WRONG,
            "NK213",
        ),
        (
            SOFTMAX.replace("(size, cols), dtype=nl.float32", "(size, 60000), dtype=nl.float32"),
            Stage.UNTRACEABLE,
            "NK310",
        ),
        (
            body(OUT + "big = nl.zeros((128, 60000), dtype=nl.float32)\n" + COPY),
            Stage.UNFIT,
            "NK205",
        ),
        (
            body(
                OUT + "t = nl.zeros((100, 96), dtype=nl.float32)\nnl.store(out[0:100],"
                " t)\nnl.store(out[100:200], t)\nreturn out"
            ),
            Stage.CHEAT,
            "NK901",
        ),
        (body("nl.store(x, nl.load(x[0:100]))\nreturn x"), Stage.UNTRACEABLE, "NK310"),
        (body("return x"), Stage.UNTRACEABLE, "NK112"),
        (
            body(OUT + "t = nl.load(x[0:100])\nnl.store(x[100:200], t)\n" + COPY),
            Stage.UNFIT,
            "NK212",
        ),
        ("def kernel(x:", Stage.REFUSED, "NK101"),
        (HEAD + "def kernel(x):\n    return x\n", Stage.REFUSED, "NK102"),
        (body("import os\nos._exit(0)"), Stage.CHEAT, "NK903"),
    ],
)
def test_kernel_that_is_not_right_has_its_stage_and_code(
    judge: Judge, softmax: Task, source: str, stage: Stage, code: str
) -> None:
    verdict = judged(judge, softmax, source)
    assert verdict.stage is stage, [str(d) for d in verdict.diagnostics]
    assert any(d.code.startswith(code) for d in verdict.diagnostics)
    assert verdict.latency_ns is None
    assert judged(judge, softmax, SOFTMAX).right


PAST_THE_END = """
out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
t = nl.load(x[0:100, :])
nl.store(out[0:100, :], t)
nl.store(out[100:200, :], t)
def step(i):
    nisa.dma_copy(dst=t[0:1, :], src=x.ap([[96, 1], [1, 96]], scalar_offset=i))
nl.fori_loop(0, 201, step)
return out
"""


def test_kernel_whose_run_ends_early_is_wrong(judge: Judge, softmax: Task) -> None:
    verdict = judged(judge, softmax, body(PAST_THE_END))
    assert verdict.stage is Stage.WRONG, [str(d) for d in verdict.diagnostics]
    (finding,) = [d for d in verdict.diagnostics if d.code == "NK202"]
    assert (finding.got, finding.limit) == ("200", "0 to 199")
    assert verdict.trials == ()


@pytest.mark.parametrize(
    "host",
    [
        "while True:\n    pass",
        "bytearray(50 * 2**30)",
        "np.ones((1 << 34,), dtype=np.float64).sum()",
        "x = 'a'\nwhile True:\n    x += x",
        "def f(n):\n    return f(n + 1)\nf(0)",
    ],
)
def test_kernel_that_never_ends_is_untraceable_and_harms_no_other(
    judge: Judge, softmax: Task, host: str
) -> None:
    verdict = judged(judge, softmax, HEAD + host + "\n" + SOFTMAX.removeprefix(HEAD))
    assert verdict.stage in (Stage.UNTRACEABLE, Stage.CHEAT, Stage.REFUSED)
    assert judged(judge, softmax, SOFTMAX).right


def test_wrong_verdict_names_output_seed_family_and_first_element(
    judge: Judge, softmax: Task
) -> None:
    verdict = judged(judge, softmax, SOFTMAX.replace("operand0=total", "operand0=1.0"))
    finding = next(d for d in verdict.diagnostics if d.code == "NK501")
    assert f"trial 0 (standard inputs, seed {verdict.trials[0].seed})" in finding.what
    assert "first [0, 0] is" in finding.what
    assert len(verdict.trials) == 1


def test_output_that_ignores_the_inputs_in_the_reference_may_be_written_from_constants(
    judge: Judge, tmp_path: Path
) -> None:
    path = tmp_path / "positions.py"
    path.write_text(
        "import numpy as np\n\n\n"
        "def reference(x):\n    return x * 2, np.arange(8, dtype=np.float32)\n\n\n"
        "def inputs(rng):\n    return [rng.standard_normal((100, 8), dtype=np.float32)]\n"
    )
    source = body(
        "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "nl.store(out, nl.multiply(nl.load(x), 2.0))\n"
        "places = nl.ndarray((8,), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "tile = nl.ndarray((1, 8), dtype=nl.float32)\n"
        "nisa.iota(tile, pattern=[[1, 8]])\n"
        "nl.store(places.reshape((1, 8)), tile)\n"
        "return out, places"
    )
    verdict = judged(judge, load_task(path), source)
    assert verdict.right, [str(d) for d in verdict.diagnostics]


def test_result_too_many_is_a_mistake_and_no_cheat(judge: Judge, softmax: Task) -> None:
    more = "extra = nl.ndarray((8,), dtype=x.dtype, buffer=nl.shared_hbm)\n    return out, extra"
    verdict = judged(judge, softmax, SOFTMAX.replace("return out", more))
    assert verdict.stage is Stage.UNFIT
    assert {d.code for d in verdict.diagnostics} >= {"NK208", "NK213"}


class Exhausted:
    """A sampler on a machine without memory."""

    def draw(self, seed: int, scale: FamilyScale) -> dict[str, NDArray[Any]]:
        """Nothing can be drawn."""
        raise MemoryError((seed, scale))


def test_machine_without_memory_gives_no_verdict(judge: Judge, softmax: Task) -> None:
    shapes = replace(softmax.dev, sampler=Exhausted())
    with pytest.raises(MachineError, match="memory"):
        judged(judge, replace(softmax, dev=shapes, perf=shapes), SOFTMAX)


def test_compile_stops_before_data(judge: Judge, softmax: Task) -> None:
    result = judge.compile(Kernel.from_text(SOFTMAX), softmax.dev)
    assert result.stage is None
    assert result.program is not None
    assert result.placement is not None
    assert judge.check(Kernel.from_text("def kernel(x:"))[0].code == "NK101"


def test_kernel_for_another_chip_is_judged_by_that_chip(softmax: Task) -> None:
    with Judge(target=Target.TRN3) as judge:
        assert judged(judge, softmax, SOFTMAX).target == "trn3"


def test_collective_with_ranks_that_do_not_run_is_wrong(judge: Judge, softmax: Task) -> None:
    call = "    ncc.all_reduce([out], [out], ncc.ReplicaGroup([[0, 1]]), nl.add)\n    return out\n"
    source = SOFTMAX.replace(HEAD, HEAD + "import nki.collectives as ncc\n")
    verdict = judged(judge, softmax, source.replace("    return out\n", call))
    assert verdict.stage is Stage.WRONG
    (finding,) = verdict.diagnostics
    assert finding.code == "NK403"
    assert "rank 1 of its ranks does not run" in finding.what
    assert "a task is judged on one rank" in finding.hint
