"""Candidates that are written by hand, for tests."""

from __future__ import annotations

from nki_agent.corpus.candidate import Candidate, name_candidate
from nki_agent.corpus.record import Family

HEAD = '''"""A task of a test."""

import torch
import torch.nn.functional as F

SHAPES = {{
    "dev": {{"M": 40, "N": 50}},
    "odd": {{"M": 31, "N": 57}},
    "perf": {{"M": {perf}, "N": {perf}}},
}}
'''
ONE = """INPUTS = {{"x": "float32[M, N]"}}
OUTPUTS = {{"y": "float32[M, N]"}}
TOLERANCE = "F2"


def reference(x: torch.Tensor) -> torch.Tensor:
    return {result}
"""


def make_candidate(result: str = "", *, perf: int = 4096, source: str = "") -> Candidate:
    """A candidate that returns an expression of `x`, or a whole file."""
    text = source or HEAD.format(perf=perf) + ONE.format(result=result)
    return Candidate(
        id=name_candidate(Family.ELEMENTWISE, "tried", text),
        source=text,
        family=Family.ELEMENTWISE,
        pattern="tried",
        operators=(),
        level=1,
        index=0,
    )
