"""A small world to train in: two tasks, a right kernel for each, and dialogues about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.agent.ablation import PromptKind, make_ablation
from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.prompt import make_prompt
from nki_agent.agent.short import choose_toolbox
from nki_agent.base.hashes import hash_text
from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import convert_tools
from nki_agent.corpus.record import BoundKind, CorpusTask, Family, Split
from nki_agent.corpus.stored import TASKS
from nki_agent.task.loader import load_task
from nki_agent.verify.judge import Judge
from tests.train.tiny import write_model

TASK = '''"""{title} of each element."""

import torch

SHAPES = {{"dev": {{"M": 128, "N": 64}}}}
INPUTS = {{"x": "float32[M, N]"}}
OUTPUTS = {{"y": "float32[M, N]"}}
TOLERANCE = "F2"


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.{function}(x)
'''
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.{function}, data=t)
    nisa.dma_copy(dst=y, src=t)
    return y
"""
FUNCTIONS = {"c-relu": "relu", "c-tanh": "tanh"}


@dataclass(frozen=True, slots=True)
class World:
    """Where its parts are."""

    folder: Path

    @property
    def corpus(self) -> Path:
        """Two tasks."""
        return self.folder / "corpus"

    @property
    def dialogues(self) -> Path:
        """Episodes with tool calls, and single shots."""
        return self.folder / "dialogues.jsonl"

    @property
    def base(self) -> Path:
        """A model that knows nothing."""
        return self.folder / "base"


def make_world(folder: Path) -> World:
    """Write tasks, dialogues and a model."""
    world = World(folder)
    world.corpus.mkdir(parents=True)
    rows = [make_row(name, function) for name, function in FUNCTIONS.items()]
    data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    (world.corpus / TASKS).write_bytes(data)
    dialogues = [d for row in rows for d in make_dialogues(row, folder)]
    world.dialogues.write_bytes(b"".join(msgspec.json.encode(d) + b"\n" for d in dialogues))
    write_model(world.base, [msgspec.json.encode(d).decode() for d in dialogues])
    return world


def make_row(name: str, function: str) -> CorpusTask:
    """A task of the corpus."""
    source = TASK.format(title=function.capitalize(), function=function)
    return CorpusTask(
        id=name,
        source=source,
        sha256=hash_text(source),
        family=Family.ELEMENTWISE,
        pattern="unary",
        operators=(function,),
        level=1,
        rank=2,
        dtype="float32",
        tolerance="F2",
        bound=BoundKind.MEMORY,
        bound_ns=1000.0,
        graph=name,
        split=Split.TRAIN,
    )


def make_dialogues(row: CorpusTask, folder: Path) -> list[dict[str, Any]]:
    """An episode that verifies and submits by tools, and one in a single shot."""
    path = folder / f"{row.id}.py"
    path.write_text(row.source, encoding="utf-8")
    task = load_task(path, name=row.id)
    kernel = KERNEL.format(function=row.operators[0])
    loop = make_ablation(PromptKind.PLAIN, "verify", mode=Mode.LOOP)
    single = make_ablation(PromptKind.SHORT, None, mode=Mode.SINGLE_SHOT)
    with Judge(target=Target.TRN2) as judge:
        tools = choose_toolbox(loop)(
            OneJudge(judge, task), target=Target.TRN2, root_seed=1, tools=loop.tools
        )
        limits = Limits(turns=3)
        told = {
            mode: make_prompt(task, target=Target.TRN2, mode=mode, limits=limits, ablation=ablation)
            for mode, ablation in ((Mode.LOOP, loop), (Mode.SINGLE_SHOT, single))
        }
    first = {
        mode: [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user},
        ]
        for mode, prompt in told.items()
    }
    answer = "stage: right"
    calls = [_call("verify_kernel", source=kernel), _call("submit")]
    episode = [*first[Mode.LOOP], calls[0], {"role": "tool", "content": answer}, calls[1]]
    text = f"```python\n{kernel}```"
    return [
        {
            "id": f"{row.id}-loop",
            "kind": "loop",
            "messages": episode,
            "tools": list(convert_tools(tools.specs)),
        },
        {
            "id": f"{row.id}-single",
            "kind": "single",
            "messages": [*first[Mode.SINGLE_SHOT], {"role": "assistant", "content": text}],
        },
    ]


def _call(name: str, **arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": function}],
    }
