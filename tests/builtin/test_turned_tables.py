"""Rows by index come from a table that lies turned in SBUF, where that saves descriptors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask

Solve = Callable[..., Verdict]
ROWS = """
import torch

SHAPES = {{"dev": {{"T": 2500, "V": 90}}, "odd": {{"T": 777, "V": 301}}}}
INPUTS = {{"table": "{dtype}[V, {cols}]", "places": "int32[T] index(V)"}}
OUTPUTS = {{"rows": "{dtype}[T, {cols}]"}}


def reference(table, places):
    return table[places.long()]
"""
BAGS = """
import torch
import torch.nn.functional as F

SHAPES = {{"dev": {{"B": 150, "L": {size}}}, "odd": {{"B": 39, "L": {size}}}}}
INPUTS = {{
    "table": "float32[90, {cols}]",
    "tokens": "int32[B, L] index(90)",
    "share": "float32[B, L]",
}}
OUTPUTS = {{"y": "float32[B, {cols}]"}}


def reference(table, tokens, share):
    return (F.embedding(tokens.long(), table) * share[..., None]).sum(dim=1)
"""
SIGN = "load_table("


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2])
@pytest.mark.parametrize(("dtype", "cols"), [("float32", 70), ("bfloat16", 64), ("float32", 140)])
def test_rows_of_a_turned_table_are_right(
    make_task: MakeTask, solve: Solve, dtype: str, cols: int, target: Target
) -> None:
    task = make_task(ROWS.format(dtype=dtype, cols=cols))
    assert SIGN in write_kernel(task, target)
    verdict = solve(task, target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


@pytest.mark.parametrize(("size", "cols"), [(1, 40), (2, 130), (37, 75)])
def test_bags_of_a_turned_table_are_right(
    make_task: MakeTask, solve: Solve, size: int, cols: int
) -> None:
    task = make_task(BAGS.format(size=size, cols=cols))
    assert SIGN in write_kernel(task, Target.TRN2)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_no_descriptor_is_made_for_a_row_of_a_turned_table(
    make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    task = make_task(ROWS.format(dtype="float32", cols=70))
    found = judges[Target.TRN2].compile(Kernel.from_text(write_kernel(task, Target.TRN2)), task.dev)
    assert found.program is not None
    signatures = [found.program.signatures[n.signature] for n in found.program.instructions()]
    assert any(s.op == "local_gather" for s in signatures)
    offsets = [o.role for s in signatures for o in s.operands if o.role.endswith("offset")]
    assert not offsets


@pytest.mark.parametrize(
    ("cols", "dtype"), [(600, "float32"), (70, "float16")], ids=["longer than a bank", "float16"]
)
def test_table_that_is_not_covered_stays_in_hbm(make_task: MakeTask, cols: int, dtype: str) -> None:
    task = make_task(ROWS.format(dtype=dtype, cols=cols))
    assert SIGN not in write_kernel(task, Target.TRN2)


def test_table_of_which_few_rows_are_taken_stays_in_hbm(make_task: MakeTask) -> None:
    task = make_task(ROWS.format(dtype="float32", cols=70).replace('"V": 301', '"V": 30000'))
    assert SIGN not in write_kernel(task, Target.TRN2)
