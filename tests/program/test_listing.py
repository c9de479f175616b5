"""The readable listing."""

from __future__ import annotations

from nki_agent.program.listing import list_program
from tests.kernels import SOFTMAX, f32, traced


def test_listing_names_line_operands_and_attributes() -> None:
    lines = list(list_program(traced(SOFTMAX, [f32("x", 128, 96)])))
    assert lines[0] == "kernel for trn2: 6 instructions, 6 distinct"
    assert lines[1] == "  argument x [128, 96] float32 in hbm (read)"
    activation = next(line for line in lines if "activation" in line)
    assert "kernel.py:18  activation dst=t2[128, 96]" in activation
    assert "op=exp" in activation
    assert "scale=1.0" in activation


def test_limit_says_how_many_follow() -> None:
    lines = list(list_program(traced(SOFTMAX, [f32("x", 256, 96)]), limit=5))
    assert lines[-1] == "... 7 more"
