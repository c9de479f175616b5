"""Kernels that go by indices, by rank or by codes are right, at two sizes with one text."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import HEAD

GOLDEN = Path(__file__).parent / "golden"
Solve = Callable[..., Verdict]
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """`body` is an expression of the names of `inputs`, whose values are made from m, n, k."""

    name: str
    body: str
    inputs: dict[str, str]
    sizes: tuple[Sizes, Sizes]

    def source(self, sizes: Sizes) -> str:
        """The task file at these sizes."""
        made = ", ".join(self.inputs.values())
        named = "\n".join(f"{name} = {size}" for name, size in zip("mnk", sizes, strict=False))
        return (
            f"{HEAD}\n{named}\n\n\ndef reference({', '.join(self.inputs)}):\n"
            f"    return {self.body}\n\n\ndef inputs():\n    return [{made}]\n"
        )


def whole(bound: str, shape: str) -> str:
    """Whole numbers below a bound."""
    return f"torch.randint(0, {bound}, ({shape}), dtype=torch.int32)"


def compare_golden(name: str, task: Task) -> None:
    """The text of a kernel as it was read last; `REMAKE=1` before pytest writes it anew."""
    text = write_kernel(task, Target.TRN2)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("REMAKE"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


X = "torch.randn(m, n)"
HALF = "torch.randn(m, n).to(torch.bfloat16)"
DISTINCT = "torch.rand(m, n).argsort(1) - n / 2"
BYTES = "torch.randint(0, 256, (m, n), dtype=torch.uint8)"
SIZES = ((130, 96, 40), (67, 211, 83))
# Rows or columns of a result that no argument has must be the same: nothing would tell them.
SAME_M = ((130, 96, 40), (130, 211, 83))
SAME_N = ((130, 96, 40), (67, 96, 83))
CASES = (
    Case("embedding", "F.embedding(i, x)", {"x": X, "i": whole("m", "k,")}, SIZES),
    Case("rows", "x[i]", {"x": HALF, "i": whole("m", "k, 3")}, SIZES),
    Case("columns", "x.index_select(1, i)", {"x": X, "i": whole("n", "k,")}, SIZES),
    Case("pairs", "x[i, j]", {"x": X, "i": whole("m", "k,"), "j": whole("n", "k,")}, SIZES),
    Case("elements", "x.gather(1, i.long())", {"x": X, "i": whole("n", "m, k")}, SIZES),
    Case("one element", "x.gather(1, i.long())", {"x": X, "i": whole("n", "m, 1")}, SIZES),
    Case(
        "sum by index",
        "torch.zeros(m, n).index_add(0, i, x)",
        {"x": "torch.randn(k, n)", "i": whole("m", "k,")},
        SAME_M,
    ),
    Case(
        "sum by index onto a table",
        "y.index_add(0, i, x)",
        {"y": X, "x": "torch.randn(k, n)", "i": whole("5", "k,")},
        ((1300, 2100, 300), (700, 1100, 200)),
    ),
    Case("count", "torch.zeros(m).index_add(0, i, torch.ones(k))", {"i": whole("m", "k,")}, SAME_M),
    Case(
        "copy by index",
        "torch.index_copy(x, 1, i.long(), y)",
        {
            "x": "torch.randn(3, m, n)",
            "y": "torch.randn(3, 7, n)",
            "i": "torch.randperm(m)[:7].to(torch.int32)",
        },
        SIZES,
    ),
    Case(
        "scatter",
        "torch.zeros(m, n).scatter(1, i.long(), y)",
        {"i": "torch.rand(m, n).argsort(1)[:, :3].to(torch.int32)", "y": "torch.randn(m, 3)"},
        SAME_N,
    ),
    Case(
        "marks",
        "torch.zeros(m, n, dtype=torch.bool).scatter(1, i.long(), value=True).float()",
        {"i": whole("n", "m, k")},
        ((1300, 24, 4), (700, 17, 3)),
    ),
    Case(
        "bag",
        "(F.embedding(i, x) * w[..., None]).sum(1)",
        {"x": X, "i": whole("m", "90, k"), "w": "torch.rand(90, k)"},
        SIZES,
    ),
    Case(
        "sum of rows that are taken",
        "torch.zeros(m, n).index_add(0, i, x[j.long()] * w[:, None])",
        {"x": X, "i": whole("m", "300,"), "j": whole("m", "300,"), "w": "torch.rand(300)"},
        SIZES,
    ),
    Case(
        "sum of taken rows in many",
        "torch.zeros(1500, n).index_add(0, i, w[:, None] * x[j.long()])",
        {"x": X, "i": whole("1500", "900,"), "j": whole("m", "900,"), "w": "torch.rand(900)"},
        SIZES,
    ),
    Case(
        "sum of plain taken rows",
        "torch.ones(1500, n).index_add(0, i, x[j.long()])",
        {"x": X, "i": whole("1500", "900,"), "j": whole("m", "900,")},
        SIZES,
    ),
    Case(
        "matrix of each row",
        "(x[:, None] @ w[i.long()]).squeeze(1)",
        {"x": X, "w": "torch.randn(3, n, k)", "i": whole("3", "m,")},
        SIZES,
    ),
    Case("nibbles", "torch.stack([x & 15, x >> 4], -1).flatten(-2).float()", {"x": BYTES}, SIZES),
    Case("one-hot", "F.one_hot(i.long(), n).float()", {"i": whole("n", "m,")}, SAME_N),
    Case("top 3", "torch.topk(x, 3)[0]", {"x": X}, SIZES),
    Case("top 20", "torch.topk(x, 20).indices.int()", {"x": X}, SIZES),
    Case("top of few", "torch.topk(x, 2)[0]", {"x": X}, ((130, 5), (67, 4))),
    Case("top of short rows", "torch.topk(x, 2)[1].int()", {"x": X}, ((1300, 16), (700, 6))),
    Case("top of long rows", "torch.topk(x, 9)[0]", {"x": X}, ((3, 20_000), (5, 33_000))),
    Case("least", "torch.argmin(x, 1).int()", {"x": X}, SIZES),
    Case("sort", "torch.sort(x, 1, descending=True)[0]", {"x": X}, SIZES),
    Case("ascending", "torch.sort(x, 1)[0]", {"x": X}, SIZES),
    Case(
        "places of the sorted",
        "torch.sort(x, 1, descending=True)",
        {"x": DISTINCT},
        ((300, 500), (67, 259)),
    ),
    Case("places of what rises", "torch.argsort(x, 1)", {"x": DISTINCT}, ((130, 261), (5, 300))),
    Case("largest of columns", "torch.argmax(x, 0).int()", {"x": X}, SIZES),
    Case("running maximum", "torch.cummax(x, 1).values", {"x": X}, SIZES),
    Case("running sum", "torch.cumsum(x, 1)", {"x": X}, SIZES),
    Case("running product", "torch.cumprod(x.sigmoid() + 0.6, 1)", {"x": X}, SIZES),
    Case(
        "cross-entropy",
        "F.cross_entropy(x, i.long(), reduction='none')",
        {"x": X, "i": whole("n", "m,")},
        SIZES,
    ),
    Case(
        "smooth cross-entropy",
        "F.cross_entropy(x, i.long(), label_smoothing=0.1)",
        {"x": X, "i": whole("n", "m,")},
        SIZES,
    ),
    Case(
        "binary cross-entropy",
        "F.binary_cross_entropy_with_logits(x, y)",
        {"x": X, "y": "torch.rand(m, n)"},
        SIZES,
    ),
    Case("huber", "F.huber_loss(x, y, delta=0.5)", {"x": X, "y": X}, SIZES),
    Case("smooth l1", "F.smooth_l1_loss(x, y, reduction='none')", {"x": X, "y": X}, SIZES),
    Case("glu", "F.glu(x, -1)", {"x": "torch.randn(m, 2 * n)"}, SIZES),
    Case("truncation", "torch.trunc(x * 3)", {"x": X}, SIZES),
    Case("cast to integers", "(x * 9).to(torch.int32)", {"x": X}, SIZES),
    Case("rounding", "torch.round(x * 3) + 0.25", {"x": X}, SIZES),
    Case("codes", "torch.round(x * 30).clamp(-127, 127).to(torch.int8)", {"x": X}, SIZES),
    Case("values of codes", "(x.float() - 8) * 0.5", {"x": BYTES}, SIZES),
    Case(
        "8-bit floats",
        "(x * 9).clamp(-240, 240).to(torch.float8_e4m3fn).float() * 0.5",
        {"x": X},
        SIZES,
    ),
    Case(
        "product of 8-bit whole numbers",
        "x.float() @ y.float()",
        {
            "x": "torch.randint(-127, 128, (m, n), dtype=torch.int8)",
            "y": "torch.randint(-127, 128, (n, k), dtype=torch.int8)",
        },
        SIZES,
    ),
    Case(
        "repeated scales",
        "x * y.repeat_interleave(16, dim=1)",
        {"x": "torch.randn(m, 16 * k)", "y": "torch.rand(m, k)"},
        ((130, 0, 4), (67, 0, 1)),
    ),
)


@pytest.mark.parametrize("target", [Target.TRN2, Target.TRN3])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernel_by_index_is_right_at_two_sizes(
    case: Case, target: Target, make_task: MakeTask, solve: Solve
) -> None:
    task, other = (make_task(case.source(sizes)) for sizes in case.sizes)
    verdict = solve(replace(task, perf=replace(other.dev, name="perf")), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_places_of_whole_rows_are_looked_for_once_they_are_sorted(make_task: MakeTask) -> None:
    source = Case("order", "torch.argsort(x, 1)", {"x": DISTINCT}, SIZES).source
    assert "find_places(" in write_kernel(make_task(source((130, 261))), Target.TRN2)
    assert "rank(searches)" in write_kernel(make_task(source((130, 130))), Target.TRN2)


READ = ("embedding", "sum by index onto a table", "count", "top of long rows")


@pytest.mark.parametrize("case", [c for c in CASES if c.name in READ], ids=lambda c: c.name)
def test_kernel_by_index_reads_as_written(case: Case, make_task: MakeTask) -> None:
    task, other = (make_task(case.source(sizes)) for sizes in case.sizes)
    compare_golden(case.name, replace(task, perf=replace(other.dev, name="perf")))


LONG = (
    Case("softmax", "F.softmax(x, -1)", {"x": X}, ((130, 60_000), (67, 41_003))),
    Case("layer norm", "F.layer_norm(x, (n,)) * y", {"x": X, "y": X}, ((3, 50_000), (5, 60_007))),
    Case("mean", "(x * y).mean(-1)", {"x": X, "y": "torch.randn(n)"}, ((3, 30_000), (5, 40_007))),
)


@pytest.mark.parametrize("case", LONG, ids=lambda c: c.name)
def test_rows_longer_than_sbuf_are_walked_in_strips(
    case: Case, make_task: MakeTask, solve: Solve
) -> None:
    task, other = (make_task(case.source(sizes)) for sizes in case.sizes)
    task = replace(task, perf=replace(other.dev, name="perf"))
    assert "for c0 in range(0, num_cols, COL_BLOCK):" in write_kernel(task, Target.TRN2)
    compare_golden(f"{case.name} in strips", task)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
