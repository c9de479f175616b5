"""Worked patterns are right kernels, on every target, and belong to codes that exist."""

import re
from pathlib import Path

import pytest

from nki_agent.agent.patterns import Pattern, find_pattern, make_patterns
from nki_agent.base.catalogue import CATALOGUE
from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.task.loader import load_task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage

ALL = make_patterns(Target.TRN2)
PATTERNS = [pattern for pattern in ALL if pattern.body]
_INPUT = re.compile(r"(\w+) (\w+)\[([\d, ]+)\]")
TASK = """import ml_dtypes
import numpy as np


def reference({names}):
    return {computes}


def inputs():
    return [{inputs}]
"""


def specs_of(pattern: Pattern) -> list[ArgumentSpec]:
    return [
        ArgumentSpec(name, tuple(int(size) for size in shape.split(",")), DType(dtype))
        for name, dtype, shape in _INPUT.findall(pattern.inputs)
    ]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)
def test_pattern_is_right(pattern: Pattern, judge: Judge, tmp_path: Path) -> None:
    path = tmp_path / "pattern.py"
    zeros = [
        f"np.zeros({spec.shape}, {'ml_dtypes' if spec.dtype is DType.BFLOAT16 else 'np'}"
        f".{spec.dtype})"
        for spec in specs_of(pattern)
    ]
    path.write_text(
        TASK.format(
            names=", ".join(pattern.arguments),
            computes=pattern.computes,
            inputs=", ".join(zeros),
        )
    )
    verdict = judge.judge(Kernel.from_text(pattern.kernel), load_task(path), root_seed=1)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize("target", Target)
def test_every_pattern_traces_on_every_target(target: Target) -> None:
    for pattern in filter(lambda pattern: pattern.body, make_patterns(target)):
        reply = trace_source(pattern.kernel, specs_of(pattern))
        assert reply.findings == (), pattern.name


def test_codes_of_patterns_exist_and_lead_to_them() -> None:
    for pattern in PATTERNS:
        for code in pattern.codes:
            assert code in CATALOGUE
            assert find_pattern(code, target=Target.TRN2) is pattern


def test_pattern_is_short() -> None:
    assert max(len(str(pattern).encode()) for pattern in ALL) <= 2200
