"""A task whose answer is its input: a kernel that moves nothing must not be right for it.

Law: a result is memory that the kernel filled. That it has the right values is not enough.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from nki_agent.verify import compiling
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage
from tests.cheats.test_cheats import ROOT_SEED, find_nothing
from tests.cheats.trick import FOLDER, read_trick
from tests.kernels import body

COPY_TASK = """\
import numpy as np


def reference(x):
    return x.copy()


def inputs(rng):
    return {"x": rng.standard_normal((200, 96)).astype(np.float32)}
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Task:
    """A copy of [200, 96] in float32."""
    path: Path = tmp_path_factory.mktemp("task") / "copy.py"
    path.write_text(COPY_TASK)
    return load_task(path)


def test_copy_that_moves_the_data_is_right(judge: Judge, copy: Task) -> None:
    source = body(
        "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "nisa.dma_copy(dst=out, src=x)\nreturn out"
    )
    verdict = judge.judge(Kernel.from_text(source), copy, root_seed=ROOT_SEED)
    assert verdict.right
    assert verdict.latency_ns is not None
    assert verdict.latency_ns > 0


@pytest.mark.parametrize(
    ("name", "stage", "code"),
    [
        ("returns_argument", Stage.UNTRACEABLE, "NK112"),
        ("aliases_the_argument", Stage.CHEAT, "NK902"),
        ("forged_program", Stage.CHEAT, "NK902"),
        ("changes_a_memory", Stage.UNTRACEABLE, "NK112"),
        ("unwritten_output", Stage.CHEAT, "NK901"),
    ],
)
def test_copy_that_moves_nothing_is_refused(
    judge: Judge,
    copy: Task,
    name: str,
    stage: Stage,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiling, "check_source", find_nothing)
    verdict = judge.judge(read_trick(FOLDER / f"{name}.py").kernel, copy, root_seed=ROOT_SEED)
    assert verdict.stage is stage
    assert code in [d.code for d in verdict.diagnostics]
