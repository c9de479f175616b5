"""Imported before a process is locked: reads the files that filtering a task needs.

Law: it filters one task of ours, so that facts of the chip and modules that are found late are in
memory; afterwards no file is opened.
"""

from __future__ import annotations

from typing import Final

from nki_agent.corpus.candidate import Candidate
from nki_agent.corpus.looking import look_further
from nki_agent.corpus.record import Family

SOURCE: Final = """\
import torch

SHAPES = {"dev": {"M": 40, "N": 60}, "perf": {"M": 2048, "N": 2048}}
INPUTS = {"x": "float32[M, N]", "w": "float32[N, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.tanh(x) @ w, -1)
"""

look_further(
    Candidate(
        id="c-softmax-warm-000000",
        source=SOURCE,
        family=Family.SOFTMAX,
        pattern="warm",
        operators=(),
        level=2,
        index=0,
    )
)
