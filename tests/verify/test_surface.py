"""The surface `isa` in the judge: right kernels are right, others are refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import nki_agent.bench
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.task.loader import load_task
from nki_agent.task.picture import LINES_MAX
from nki_agent.task.task import Scope
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict
from tests.isa_kernels import LEAKY_RELU, MATMUL

TASKS = Path(nki_agent.bench.__file__).parent / "tasks"


@pytest.fixture(scope="module")
def isa() -> Iterator[Judge]:
    with Judge(target=Target.TRN2, surface=Surface.ISA) as judge:
        yield judge


def judge_for(judge: Judge, text: str, task: str, *, scope: Scope = Scope.PROOF) -> Verdict:
    loaded = load_task(TASKS / f"{task}.py")
    return judge.judge(Kernel.from_text(text), loaded, root_seed=3, scope=scope)


@pytest.mark.parametrize(
    ("text", "task"), [(LEAKY_RELU, "l1-leaky-relu-2d"), (MATMUL, "l1-matmul-transa-bf16")]
)
def test_kernel_at_addresses_of_its_own_is_right(isa: Judge, text: str, task: str) -> None:
    verdict = judge_for(isa, text, task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert verdict.surface is Surface.ISA


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("nisa.dma_copy(dst=tile, src=x[part])", "tile = nl.load(x[part])", 23),
        ("nisa.tensor_tensor(dst=low, data1=tile, data2=low, op=nl.maximum)",
         "low = nl.maximum(tile, low)", 25),
        ("nisa.dma_copy(dst=y[part], src=low)", "nl.store(y[part], low)", 26),
        ("buffer=nl.sbuf, address=(0, place))", "buffer=nl.sbuf)", 21),
        # Only the trace sees these.
        ("nisa.dma_copy(dst=y[part], src=low)", "getattr(nl, 'sto' + 're')(y[part], low)", 26),
        ("nisa.dma_copy(dst=y[part], src=low)", "{'m': nl}['m'].store(y[part], low)", 26),
        ("nisa.dma_copy(dst=y[part], src=low)", "[nl][0].store(y[part], low)", 26),
        ("address=(0, place))", "address=[None, (0, place)][place < 0])", 21),
        ("nisa.tensor_tensor(dst=low, data1=tile, data2=low, op=nl.maximum)",
         "most = (nl.maximum, 0)[0]; low = most(tile, low)", 25),
    ],
)  # fmt: skip
def test_kernel_off_the_surface_is_refused(isa: Judge, old: str, new: str, line: int) -> None:
    assert old in LEAKY_RELU
    verdict = judge_for(isa, LEAKY_RELU.replace(old, new, 1), "l1-leaky-relu-2d")
    assert verdict.stage is Stage.REFUSED
    finding = next(d for d in verdict.diagnostics if d.code == "NK119")
    assert finding.where[-1].line == line
    assert verdict.trials == ()


def test_same_kernel_is_right_on_the_surface_nki(judge: Judge) -> None:
    text = LEAKY_RELU.replace(", address=(0, place)", "", 1)
    assert judge_for(judge, text, "l1-leaky-relu-2d").stage is Stage.RIGHT


def test_wrong_tile_is_drawn(isa: Judge) -> None:
    verdict = judge_for(isa, LEAKY_RELU.replace("0.01", "0.02"), "l1-leaky-relu-2d")
    assert verdict.stage is Stage.WRONG
    picture = verdict.trials[-1].outputs[0].picture
    assert "got - expected" in picture
    assert len(picture.splitlines()) <= LINES_MAX
    assert len(picture) < 2000


def test_overlap_of_two_addresses_is_unfit(isa: Judge) -> None:
    verdict = judge_for(isa, LEAKY_RELU.replace("SCALED + place", "place"), "l1-leaky-relu-2d")
    assert verdict.stage is Stage.UNFIT
    assert "NK209" in {d.code for d in verdict.diagnostics}
