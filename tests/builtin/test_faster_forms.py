"""Forms of kernels that save time: each is taken where it should be, and its values are right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nki_agent.builtin.choices import Choices
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.cost.transfer import contiguous_elems
from nki_agent.isa.enums import Memory
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator

Solve = Callable[[Task], Verdict]
SINK = (
    "(torch.softmax(torch.cat([x @ y.transpose(-1, -2), z[:, None, None].expand(3, 150, 1)], -1),"
    " -1)[..., :-1]) @ w"
)
FORMS = (
    (
        Operator("beside", SINK, ((3, 150, 40), (3, 140, 40), (3,), (3, 140, 24))),
        "bfloat16",
        "neg_beside",
    ),
    (
        Operator("hidden keys", "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
                 ((2, 150, 40), (2, 150, 40), (2, 150, 24))),
        "float32",
        "hidden_keys(",
    ),
    (
        Operator("period", "(x - y[:, None, None]) * z[:, None, None]",
                 ((7, 24, 30, 40), (24,), (24,))),
        "float32",
        "lanes = PARTITIONS // period * period",
    ),
    (
        Operator("parking", "torch.exp(x) * torch.tanh(y) + torch.sigmoid(x)",
                 ((1500, 1000), (1500, 1000))),
        "float32",
        "buffer=nl.psum",
    ),
    (Operator("bits", "(x ^ (x >> 3)) & 255", ((1500, 1000),)), "int32", "buffer=nl.psum"),
    (Operator("largest by halves", "x.amax(1)", ((300, 3001),)), "bfloat16", "fold_rows("),
    (Operator("copies", "x[:, :, None].expand(-1, -1, 4, -1, -1).reshape(3, 8, 64, 131)",
              ((3, 2, 64, 131),)), "bfloat16", "writes all copies"),
    (Operator("copies of what is made", "torch.exp(x + y).expand(5, 400, 251).contiguous()",
              ((1, 400, 251), (1, 400, 251))), "float32", "writes all copies"),
    (Operator("kept rows", "F.softmax(x, -1)", ((130, 30000),)), "float32", "x_whole[:rows, "),
    (Operator("runs", "x.T @ y", ((900, 30), (900, 70))), "bfloat16", "load_runs("),
    (
        Operator(
            "patches",
            "F.conv2d(x, y, z, stride=4).flatten(2).transpose(1, 2)",
            ((3, 3, 26, 32), (50, 3, 4, 4), (50,)),
        ),
        "bfloat16",
        "stage_1_patches(",
    ),
    (
        Operator("long rows in order", "x.permute(0, 2, 1, 3).contiguous()", ((150, 20, 9, 4),)),
        "bfloat16",
        "ordered = tile.permute(",
    ),
    (
        Operator("few columns in order", "F.pixel_shuffle(x, 3)", ((2, 90, 6, 10),)),
        "bfloat16",
        "ordered = tile.permute(",
    ),
    (
        Operator("taps beside", "torch.relu(F.conv2d(x, y, padding=1, groups=70))",
                 ((16, 70, 9, 11), (70, 1, 3, 3))),
        "float32",
        "add_beside(",
    ),
    (
        Operator("wide taps beside",
                 "F.conv2d(x, y, stride=(2, 1), padding=(1, 4), dilation=(1, 2), groups=70)",
                 ((16, 70, 13, 11), (70, 1, 4, 5))),
        "float32",
        "add_beside(",
    ),
    (
        Operator("tiles moved together", "F.relu(x + F.conv2d(x, y, padding=1))",
                 ((2, 70, 45, 56), (70, 70, 3, 3))),
        "bfloat16",
        "group_lines",
    ),
    (
        Operator("columns once",
                 "torch.cat([x, F.relu(x * y[:, None, None] + z[:, None, None])], 1)",
                 ((3, 140, 30, 7), (140,), (140,))),
        "bfloat16",
        "kept.append((y_column, z_column))",
    ),
    (Operator("sorted", "torch.sort(x, dim=1).values", ((150, 300),)), "float32", "sort_lists("),
    (
        Operator("sorted down", "torch.sort(x, dim=1, descending=True).values", ((700, 256),)),
        "bfloat16",
        "sort_lists(",
    ),
    (
        Operator("sorted in PSUM", "torch.sort(x, dim=1).values", ((300, 512),)),
        "float32",
        "buffer=nl.psum",
    ),
    (
        Operator("sorted in SBUF", "torch.sort(x, dim=1).values", ((3, 5000),)),
        "float32",
        "highs = others.reshape(",
    ),
    (
        Operator("largest of groups", "torch.topk(x, 40, dim=1)", ((300, 2050),)),
        "float32",
        "rank_groups(",
    ),
    (
        Operator("least of groups", "torch.topk(x, 9, dim=1, largest=False)[0]", ((130, 1001),)),
        "bfloat16",
        "rank_groups(",
    ),
    (
        Operator("row by row", "(x - y[..., None]) * z[..., None]",
                 ((130, 40, 128), (130, 40), (130, 40))),
        "float32",
        "scale=z_column[:, e, :]",
    ),
    (
        Operator("statistics row by row", "F.layer_norm(x, (120,)) * y[..., None]",
                 ((130, 40, 120), (130, 40))),
        "bfloat16",
        "for e in range(each):",
    ),
    (
        Operator("row kept in PSUM", "F.rms_norm(x, (600,), y) / (x.abs().amax(1)[:, None] + 1)",
                 ((4200, 600), (600,))),
        "float32",
        "y_row_loaded",
    ),
    (
        Operator("one less where it holds", "torch.where(x == y[:, None], z - 1, z) * 2",
                 ((300, 70), (300,), (300, 70))),
        "float32",
        "op1=nl.subtract",
    ),
    (
        Operator("what follows a product", "z[:, None] - 2 * (x @ y) + w",
                 ((900, 60), (60, 700), (900,), (700,))),
        "float32",
        "engine=nisa.engine.gpsimd",
    ),
    (Operator("padding", "F.pad(x, (1, 2, 2, 1), value=0.5)", ((3, 5, 14, 20),)), "float32",
     "value=0.5"),
    (Operator("moved", "x.roll(3, 1)", ((150, 300),)), "float32", "From HBM to HBM"),
    (Operator("moved and cast", "x.float().roll(3, 1)", ((150, 300),)), "bfloat16",
     "From HBM to HBM"),
    (
        Operator("choice behind a product", "F.softmax((x @ y.T).masked_fill("
                 "~torch.ones(150, 150, dtype=torch.bool).tril(), -1e9), -1)",
                 ((150, 40), (150, 40))),
        "bfloat16",
        "before_3",
    ),
    (Operator("quarters", "torch.relu(x @ y)", ((90, 19, 40), (90, 40, 23))), "float32",
     "* 32 % PARTITIONS"),
    (Operator("halves", "x @ x.transpose(1, 2)", ((50, 39, 30),)), "bfloat16",
     "* 64 % PARTITIONS"),
    (Operator("pairs", "F.max_pool2d(x, 3, 2, 1)", ((3, 5, 21, 30),)), "bfloat16", "pool_pairs("),
)  # fmt: skip
COUNTS = """
import torch

SHAPES = {"dev": {"T": 1777, "V": 83}}
INPUTS = {"indices": "int32[T] index(V)"}
OUTPUTS = {"counts": "int32[V]"}


def reference(indices, V=83):
    return indices.new_zeros(V).index_add(0, indices, torch.ones_like(indices))
"""
LARGEST = """
import torch

SHAPES = {"dev": {"M": 40, "N": 501}, "odd": {"M": 5, "N": 2001}}
INPUTS = {"x": "float32[M, N]"}
OUTPUTS = {"values": "float32[M, 64]", "places": "int32[M, 64]"}
TOLERANCE = "IX"


def reference(x):
    values, places = torch.topk(x, 64, dim=1)
    return values, places.to(torch.int32)
"""
MASKED = """
import torch

SHAPES = {"dev": {"M": 130, "N": 70}, "odd": {"M": 37, "N": 205}}
INPUTS = {"x": "float32[M, N]", "keep": "uint8[M, N] mask", "hide": "uint8[M, N] mask"}
OUTPUTS = {"y": "float32[M, N]"}


def reference(x, keep, hide):
    return torch.where(hide > 0, 2.0, x.masked_fill(keep == 0, -3.0)) + 1
"""
GROUPED = """
import torch
import torch.nn.functional as F

SHAPES = {"dev": {"H": 4, "G": 2, "S": 30}, "odd": {"H": 3, "G": 3, "S": 37}}
INPUTS = {"q": "float32[H, 16]", "k": "float32[G, S, 16]"}
OUTPUTS = {"y": "float32[H, S]"}


def reference(q, k):
    grouped = q.reshape(k.shape[0], -1, q.shape[1])
    return (grouped @ k.transpose(-1, -2)).reshape(q.shape[0], k.shape[1])
"""


@pytest.mark.parametrize(("operator", "dtype", "sign"), FORMS, ids=lambda v: getattr(v, "name", ""))
def test_faster_form_is_taken_and_right(
    operator: Operator, dtype: str, sign: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    assert sign in write_kernel(task, Target.TRN2)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


HALF = 0.5
"""Of what a tolerance allows."""
PRODUCTS = (
    Operator("plain", "x @ y", ((300, 200), (200, 600))),
    Operator("wide", "x @ y", ((300, 200), (200, 5000))),
    Operator("turned", "x @ y.T", ((300, 40), (600, 40))),
    Operator("ready", "x.T @ y", ((200, 300), (200, 130))),
    Operator("long rows", "torch.relu(x @ y + z)", ((2, 150, 600), (600, 90), (90,))),
    Operator("streamed", "x @ y", ((300, 2100), (2100, 6000))),
    Operator("runs", "x.T @ y", ((900, 300), (900, 70))),
    Operator(
        "transposed convolution",
        "F.conv_transpose2d(x, y, stride=2, padding=1)",
        ((3, 60, 9, 11), (60, 70, 4, 4)),
    ),
    Operator("volumes", "F.conv3d(x, y, padding=1)", ((2, 40, 4, 6, 7), (30, 40, 3, 3, 3))),
    Operator("convolution", "F.conv2d(x, y, padding=1)", ((2, 130, 9, 11), (70, 130, 3, 3))),
    Operator("depthwise", "F.conv2d(x, y, padding=1, groups=50)", ((4, 50, 9, 11), (50, 1, 3, 3))),
    Operator("few outputs", "F.conv2d(x, y, padding=1)", ((2, 64, 9, 11), (30, 64, 3, 3))),
)


@pytest.mark.parametrize("operator", PRODUCTS, ids=lambda v: v.name)
def test_float32_product_of_halves_is_taken_and_right(
    operator: Operator, make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    task = make_task(operator.source("float32"))
    text = write_kernel(task, Target.TRN2, choices=Choices(split_products=True))
    assert "for x_half, w_half in ((0, 0), (0, 1), (1, 0)):" in text
    verdict = judges[Target.TRN2].judge(Kernel.from_text(text), task, root_seed=1)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert max(out.ratio for trial in verdict.trials for out in trial.outputs) < HALF


@pytest.mark.parametrize(
    ("text", "halved"),
    [
        ("(torch.softmax(x @ y, dim=-1) + 0.5) @ z", 1),
        ("torch.exp(x @ y) + z", 0),
        ("torch.topk(x @ y, 8, dim=-1).values + z", 0),
        ("torch.logsumexp(x @ y, dim=-1, keepdim=True) + z", 1),
    ],
)
def test_products_whose_exponentials_count_are_whole(
    text: str, halved: int, make_task: MakeTask
) -> None:
    shapes = ((300, 200), (200, 600), (600, 70) if "@ z" in text else (300, 1))
    task = make_task(Operator("weighed", text, shapes).source("float32"))
    kernel = write_kernel(task, Target.TRN2, choices=Choices(split_products=True))
    assert kernel.count("for x_half, w_half in ((0, 0), (0, 1), (1, 0)):") == halved


NAMED = """
import torch

SHAPES = {"dev": {"M": 300, "K": 200, "N": 130}, "odd": {"M": 137, "K": 211, "N": 97}}
INPUTS = {"a": "float32[M, K]", "b": "float32[K, N]", "c": "float32[M, N]"}
OUTPUTS = {"y": "float32[M, N]"}


def reference(a, b, c):
    return 1.5 * (a @ b) + 0.5 * c
"""


def test_operands_of_any_name_are_halved(make_task: MakeTask, judges: dict[Target, Judge]) -> None:
    task = make_task(NAMED)
    text = write_kernel(task, Target.TRN2, choices=Choices(split_products=True))
    assert "w_half" in text
    verdict = judges[Target.TRN2].judge(Kernel.from_text(text), task, root_seed=1)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


HEADS = (
    Operator(
        "heads",
        "F.scaled_dot_product_attention(x.reshape(2, 150, 3, 32).transpose(1, 2),"
        " y.reshape(2, 150, 3, 32).transpose(1, 2), z.reshape(2, 150, 3, 32).transpose(1, 2))"
        ".transpose(1, 2).reshape(2, 150, 96) @ w",
        ((2, 150, 96), (2, 150, 96), (2, 150, 96), (96, 40)),
    ),
    Operator(
        "products",
        "(x @ y).transpose(0, 1).reshape(150, -1) @ z",
        ((3, 150, 64), (64, 40), (120, 30)),
    ),
)


@pytest.mark.parametrize("operator", HEADS, ids=lambda v: v.name)
def test_value_that_is_only_put_in_order_is_written_so(
    operator: Operator, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source("float32"))
    # Two products, and nothing that copies.
    assert "stage_3" not in write_kernel(task, Target.TRN2)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


ADDED = """
import torch

SHAPES = {"dev": {"T": 2500, "V": 1700}, "odd": {"T": 1537, "V": 1301}}
INPUTS = {"base": "float32[V, 70]", "rows": "float32[T, 70]", "places": "int32[T] index(V)"}
OUTPUTS = {"sums": "float32[V, 70]"}


def reference(base, rows, places):
    return base.index_add(0, places, rows)
"""
TAKEN = """
import torch

SHAPES = {"dev": {"T": 2500}, "odd": {"T": 777}}
INPUTS = {"table": "float16[90, 70]", "places": "int32[T] index(90)"}
OUTPUTS = {"rows": "float16[T, 70]"}


def reference(table, places):
    return table[places]
"""


@pytest.mark.parametrize(
    ("source", "sign"), [(ADDED, "begun.append("), (TAKEN, "tile[:, e, :]")], ids=["add", "take"]
)
def test_rows_by_index_do_not_wait_for_each_other(
    source: str, sign: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(source)
    assert sign in write_kernel(task, Target.TRN2)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_number_of_occurrences_is_a_product_of_digits(make_task: MakeTask, solve: Solve) -> None:
    task = make_task(COUNTS)
    assert "low_digits" in write_kernel(task, Target.TRN2)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_mask_of_bytes_is_a_predicate_as_it_is(make_task: MakeTask, solve: Solve) -> None:
    task = make_task(MASKED)
    text = write_kernel(task, Target.TRN2)
    assert "predicate=keep_tile, reverse_pred=True" in text
    assert "predicate=hide_tile)" in text
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_no_column_is_ranked_twice_where_all_groups_are_chosen(
    make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(LARGEST)
    assert "rank_groups(" in write_kernel(task, Target.TRN2)
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_axis_of_one_element_at_some_sizes_is_no_other_graph(
    make_task: MakeTask, solve: Solve
) -> None:
    verdict = solve(make_task(GROUPED))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_nothing_is_parked_where_that_is_not_wanted(make_task: MakeTask) -> None:
    operator, dtype, _ = next(form for form in FORMS if form[0].name == "parking")
    task = make_task(operator.source(dtype))
    assert "psum" not in write_kernel(task, Target.TRN2, choices=Choices(parking=False))


def test_tiles_that_wait_at_the_end_fit_psum(make_task: MakeTask, solve: Solve) -> None:
    body = "F.layer_norm(y + torch.where(w > 0, x * 1.25, 0), (2048,), z, z)"
    shapes = ((900, 2048), (900, 2048), (2048,), (900, 2048))
    task = make_task(Operator("waiting", body, shapes).source("bfloat16"))
    text = write_kernel(task, Target.TRN2)
    assert "buffer=nl.psum" in text
    assert "before_4" in text
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


def test_sums_that_a_clamp_may_leave_little_of_are_whole(make_task: MakeTask) -> None:
    shapes = ((2, 50, 9, 11), (50, 1, 3, 3), (20, 50, 1, 1))
    body = "F.relu(F.conv2d(F.conv2d(x, y, groups=50), z))"
    task = make_task(Operator("clamped", body, shapes).source("float32"))
    text = write_kernel(task, Target.TRN2, choices=Choices(split_products=True))
    assert "halves" not in text


@pytest.mark.parametrize(
    ("images", "target", "is_shared"),
    [(16, Target.TRN2, True), (16, Target.TRN1, False), (4, Target.TRN2, False)],
)
def test_gpsimd_adds_taps_up_where_it_has_a_port_and_time(
    images: int, target: Target, *, is_shared: bool, make_task: MakeTask
) -> None:
    shapes = ((images, 70, 9, 11), (70, 1, 3, 3))
    operator = Operator("beside", "F.conv2d(x, y, padding=1, groups=70)", shapes)
    text = write_kernel(make_task(operator.source("float32")), target)
    assert ("add_beside(" in text) is is_shared


def test_channels_of_all_images_fill_the_partitions(
    make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    # Four images of 96 channels are three tiles of 128 lanes, not four of 96.
    shapes = ((4, 96, 10, 12), (96, 1, 3, 3), (96,))
    operator = Operator("lanes", "torch.relu(F.conv2d(x, y, z, padding=1, groups=96))", shapes)
    task = make_task(operator.source("bfloat16"))
    text = write_kernel(task, Target.TRN2)
    found = judges[Target.TRN2].compile(Kernel.from_text(text), task.dev)
    assert found.program is not None
    ops = [found.program.signatures[node.signature].op for node in found.program.instructions()]
    tiles, halves, taps = 3, 2, 9
    assert ops.count("nc_matmul") + ops.count("scalar_tensor_tensor") == tiles * halves * taps
    assert "load_lanes(" in text


@pytest.mark.parametrize(
    ("body", "is_joined"),
    [
        ("F.max_pool2d(F.relu(F.conv2d(x, y)), 2)", True),
        ("F.max_pool2d(F.conv2d(x, y), 3, 2)", False),
        ("F.max_pool2d(F.conv2d(x, y), 2, ceil_mode=True)", False),
    ],
)
def test_windows_side_by_side_are_pooled_before_they_leave_sbuf(
    body: str, is_joined: bool, make_task: MakeTask
) -> None:
    shapes = ((2, 3, 14, 15), (70, 3, 3, 3))
    text = write_kernel(make_task(Operator("pooled", body, shapes).source("float32")), Target.TRN2)
    assert ("private_hbm" not in text) == is_joined


def test_tiles_of_few_channels_share_what_follows(
    make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    # Eight lines of 400 pixels are two groups of four tiles, each with one step behind it.
    operator = Operator("narrow", "F.relu(F.conv2d(x, y))", ((1, 30, 8, 400), (30, 30, 1, 1)))
    task = make_task(operator.source("float32"))
    found = judges[Target.TRN2].compile(Kernel.from_text(write_kernel(task, Target.TRN2)), task.dev)
    assert found.program is not None
    ops = [found.program.signatures[node.signature].op for node in found.program.instructions()]
    tiles, groups = 8, 2
    assert ops.count("nc_matmul") == tiles
    assert ops.count("activation") + ops.count("tensor_scalar") == groups


def test_tiles_of_shared_lines_are_stored_from_all_partitions_by_turns(
    make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    operator = Operator("lines", "F.conv2d(x, y, padding=1)", ((4, 30, 16, 20), (30, 30, 3, 3)))
    task = make_task(operator.source("float32"))
    found = judges[Target.TRN2].compile(Kernel.from_text(write_kernel(task, Target.TRN2)), task.dev)
    assert found.program is not None
    signatures = found.program.signatures
    moves = [s for s in signatures if s.op == "dma_copy" and s.get("src").memory is Memory.SBUF]
    starts = [s.get("src").pattern.partition for s in moves]
    assert {start[0] for start in starts if start is not None} == {0, 32, 64, 96}


def test_windows_side_by_side_are_reduced_at_once(
    make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    operator = Operator("windows", "F.avg_pool2d(x, (2, 3))", ((2, 30, 9, 11),))
    task = make_task(operator.source("float32"))
    found = judges[Target.TRN2].compile(Kernel.from_text(write_kernel(task, Target.TRN2)), task.dev)
    assert found.program is not None
    ops = [found.program.signatures[node.signature].op for node in found.program.instructions()]
    assert ops.count("tensor_reduce") == 1


def test_lines_that_are_pooled_with_a_border_are_loaded_in_one_run(
    make_task: MakeTask, judges: dict[Target, Judge]
) -> None:
    operator = Operator("border", "F.max_pool2d(x, 3, 2, 1)", ((2, 60, 12, 80),))
    task = make_task(operator.source("bfloat16"))
    found = judges[Target.TRN2].compile(Kernel.from_text(write_kernel(task, Target.TRN2)), task.dev)
    assert found.program is not None
    signatures = [found.program.signatures[n.signature] for n in found.program.instructions()]
    load = next(s.get("dst") for s in signatures if s.op == "dma_copy")
    assert contiguous_elems(load) == load.pattern.free_elems


@pytest.mark.parametrize(
    ("operator", "dtype", "text"),
    [
        (Operator("wide", "x.amax(1)", ((300, 3001),)), "float32", "fold_rows("),
        (Operator("by loads", "F.softmax(x, -1)", ((300, 3001),)), "bfloat16", "fold_rows("),
    ],
    ids=lambda value: value.name if isinstance(value, Operator) else "",
)
def test_halves_are_left_where_they_save_nothing(
    operator: Operator, dtype: str, text: str, make_task: MakeTask, solve: Solve
) -> None:
    task = make_task(operator.source(dtype))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert text not in write_kernel(task, Target.TRN2)


def test_number_of_each_row_is_loaded_once_for_all_columns(
    make_task: MakeTask, solve: Solve
) -> None:
    operator = Operator("scaled", "(x @ y) * z[:, None]", ((300, 64), (64, 1100), (300,)))
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    kernel = write_kernel(task, Target.TRN2)
    assert kernel.index("dma_copy(dst=z_row") < kernel.index("for n0 in range(")


@pytest.mark.parametrize("count", [2, 8])
def test_few_largest_values_of_short_rows_are_stored_in_one_run(
    count: int, make_task: MakeTask, judges: dict[Target, Judge], solve: Solve
) -> None:
    operator = Operator("largest", f"torch.topk(x, {count}, dim=1)[0]", ((600, 30),))
    task = make_task(operator.source("float32"))
    verdict = solve(task)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    found = judges[Target.TRN2].compile(Kernel.from_text(write_kernel(task, Target.TRN2)), task.dev)
    assert found.program is not None
    signatures = [found.program.signatures[n.signature] for n in found.program.instructions()]
    stores = [s.get("src") for s in signatures if s.op == "dma_copy"][1::2]
    assert stores
    assert all(contiguous_elems(tile) == tile.pattern.free_elems for tile in stores)
