"""The short prompt: all that a kernel must know, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nki_agent.agent.ablation import Ablation, PromptKind, Tool
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.short import ShortToolbox, choose_toolbox, write_short_task
from nki_agent.agent.tools import Toolbox
from nki_agent.chip.spec import Target
from nki_agent.task.loader import load_task
from nki_agent.verify.judge import Judge
from nki_agent.verify.verdict import Stage

TASK = '''"""A scaled sum."""
import torch
from torch import nn

SHAPES = {"dev": {"M": 130, "N": 70}}
INPUTS = {"x": "float32[M, N]"}
PARAMETERS = {"gain": "float32[N] gain"}
OUTPUTS = {"y": "float32[M, N]"}
TOLERANCE = "F1"
SCALE = 2.0
UNUSED = 3.0


def double(t):
    return t * SCALE


class Model(nn.Module):
    def __init__(self, N: int) -> None:
        super().__init__()
        self.offset = 0.5
        self.gain = nn.Parameter(torch.empty(N))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._shift(double(x)) * self.gain

    def _shift(self, t):
        return t + self.offset
'''
WRONG = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, gain):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.no_such(y, x)
    return y
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "task.py"
    file.write_text(TASK, encoding="utf-8")
    return file


def test_short_task_has_arguments_outputs_and_all_that_the_reference_uses(path: Path) -> None:
    text = write_short_task(load_task(path))
    assert text.splitlines()[:3] == [
        "x: float32 [130, 70]",
        "gain: float32 [70]",
        "-> float32 [130, 70]",
    ]
    for used in ("SCALE = 2.0", "def double(t):", "def _shift(self, t):", "self.offset = 0.5"):
        assert used in text
    assert text.endswith("return self._shift(double(x)) * self.gain")
    for other in ("UNUSED", "SHAPES", "nn.Parameter", "super", "import", "class Model"):
        assert other not in text


def test_short_tools_show_nothing_and_answer_in_one_line(path: Path) -> None:
    short = Ablation(prompt=PromptKind.SHORT, tools=(Tool.VERIFY,))
    with Judge(target=Target.TRN2) as judge:
        tools = choose_toolbox(short)(
            OneJudge(judge, load_task(path)), target=Target.TRN2, root_seed=1, tools=short.tools
        )
        first = asyncio.run(tools.take_text(WRONG))
        again = asyncio.run(tools.take_text(WRONG))
    assert isinstance(tools, ShortToolbox)
    assert tools.specs == ()
    assert first.stage is Stage.REFUSED
    assert first.text.startswith("refused: kernel.py:9: NK")
    assert len(first.text.splitlines()) == 1
    assert again.text == "refused, as before: this kernel was sent already"


def test_other_prompts_have_the_usual_tools() -> None:
    assert choose_toolbox(Ablation()) is Toolbox
