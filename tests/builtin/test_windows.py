"""Convolutions, pools and norms over channels are right, on ragged sizes and at two of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.task.task import Task
from nki_agent.verify.verdict import Stage, Verdict
from tests.builtin.conftest import MakeTask
from tests.builtin.operators import Operator, Shapes

Solve = Callable[..., Verdict]
IMAGES = ((2, 5, 9, 11),)
CONVOLUTIONS = (
    Operator("conv of sequences", "F.conv1d(x, y, z, padding=2)", ((2, 5, 40), (7, 5, 5), (7,))),
    Operator("conv of long sequences", "F.conv1d(x, y, padding=1)", ((1, 3, 1300), (4, 3, 3))),
    Operator("conv of images", "F.conv2d(x, y, padding=1)", (*IMAGES, (6, 5, 3, 3))),
    Operator("conv of many channels", "F.conv2d(x, y)", ((2, 140, 6, 7), (150, 140, 3, 2))),
    Operator(
        "conv of half the partitions", "F.conv2d(x, y, padding=1)", ((2, 50, 6, 7), (9, 50, 3, 3))
    ),
    Operator(
        "strided and dilated conv",
        "F.conv2d(x, y, stride=2, padding=2, dilation=2)",
        ((2, 5, 13, 12), (6, 5, 3, 3)),
    ),
    Operator(
        "uneven conv", "F.conv2d(x, y, stride=(2, 1), padding=(0, 3))", (*IMAGES, (6, 5, 4, 5))
    ),
    Operator("pointwise conv", "F.relu(F.conv2d(x, y, z))", (*IMAGES, (6, 5, 1, 1), (6,))),
    Operator("patches", "F.conv2d(x, y, stride=4)", ((2, 3, 12, 16), (10, 3, 4, 4))),
    Operator("conv of volumes", "F.conv3d(x, y, padding=1)", ((1, 3, 4, 5, 6), (7, 3, 3, 3, 3))),
    Operator(
        "conv of volumes plane by plane",
        "F.conv3d(x, y, stride=2, padding=1)",
        ((1, 60, 4, 5, 6), (7, 60, 3, 3, 3)),
    ),
    Operator("grouped conv", "F.conv2d(x, y, padding=1, groups=3)", ((2, 6, 7, 8), (9, 2, 3, 3))),
    Operator(
        "depthwise conv", "F.conv2d(x, y, z, padding=1, groups=5)", (*IMAGES, (5, 1, 3, 3), (5,))
    ),
    Operator(
        "causal conv",
        "F.silu(F.conv1d(F.pad(x, (3, 0)), y, z, groups=140))",
        ((2, 140, 50), (140, 1, 4), (140,)),
    ),
    Operator(
        "transposed conv",
        "torch.tanh(F.conv_transpose2d(x, y, z, stride=2, padding=1))",
        (*IMAGES, (5, 6, 4, 4), (6,)),
    ),
    Operator(
        "uneven transposed conv",
        "F.conv_transpose2d(x, y, stride=(3, 2), output_padding=(1, 0))",
        (*IMAGES, (5, 6, 3, 3)),
    ),
    Operator(
        "transposed conv of volumes",
        "F.conv_transpose3d(x, y, z, stride=(1, 2, 2), padding=1, output_padding=(0, 1, 0))",
        ((2, 5, 3, 4, 5), (5, 6, 3, 3, 3), (6,)),
    ),
    Operator(
        "transposed conv of pooled volumes",
        "F.conv_transpose3d(F.max_pool3d(x, 2), y, stride=2)",
        ((2, 5, 4, 4, 6), (5, 6, 2, 2, 2)),
    ),
    Operator(
        "pool beside an image", "torch.cat([F.max_pool2d(x, 2), y], -1)", (*IMAGES, (2, 5, 4, 3))
    ),
    Operator(
        "conv beside an image",
        "torch.cat([F.relu(F.conv2d(x, z, padding=1)), y], -1)",
        (*IMAGES, (2, 5, 9, 4), (5, 5, 3, 3)),
    ),
    Operator(
        "transposed conv in groups",
        "F.conv_transpose2d(x, y, stride=2, padding=1, groups=2)",
        ((2, 6, 7, 5), (6, 2, 3, 3)),
    ),
    Operator(
        "transposed conv with columns of no pixel",
        "F.conv_transpose2d(x, y, stride=3, dilation=3, padding=2)",
        (*IMAGES, (5, 4, 2, 2)),
    ),
    Operator(
        "transposed conv that cuts off",
        "F.conv_transpose1d(x, y, stride=5, padding=3)",
        ((2, 5, 9), (5, 4, 2)),
    ),
    Operator(
        "transposed conv of padded images",
        "F.conv_transpose2d(F.pad(x, (1, 0, 2, 1)), y, stride=2)",
        (*IMAGES, (5, 4, 3, 3)),
    ),
    Operator("transposed conv of sequences", "F.conv_transpose1d(x, y)", ((2, 5, 9), (5, 4, 3))),
    Operator(
        "conv and skip",
        "F.relu(F.conv2d(x, y, padding=1) * z[:, None, None] + x)",
        (*IMAGES, (5, 5, 3, 3), (5,)),
    ),
    Operator(
        "conv and shift of each image",
        "F.conv2d(x, y, padding=1) + z[:, :, None, None]",
        (*IMAGES, (6, 5, 3, 3), (2, 6)),
    ),
    Operator(
        "conv of turned frames",
        "F.conv1d(x.transpose(1, 2), y, padding=1).transpose(1, 2)",
        ((2, 30, 5), (7, 5, 3)),
    ),
    Operator(
        "depthwise conv of few channels, strided",
        "F.conv2d(x, y, z, stride=2, padding=(2, 1), groups=37) * 2",
        ((5, 37, 9, 11), (37, 1, 5, 3), (37,)),
    ),
    Operator(
        "depthwise conv, shift and skip",
        "F.silu(F.conv2d(x, y, padding=2, dilation=2, groups=5) + z[:, :, None, None]) + x",
        (*IMAGES, (5, 1, 3, 3), (2, 5)),
    ),
    Operator(
        "depthwise conv whose lanes come again",
        "torch.tanh(F.conv1d(x, y, z, padding=3, groups=96))",
        ((9, 96, 20), (96, 1, 6), (96,)),
    ),
    Operator(
        "depthwise conv of wide lines",
        "F.conv2d(x, y, padding=(0, 1), groups=3)",
        ((2, 3, 4, 1030), (3, 1, 2, 3)),
    ),
    Operator(
        "depthwise conv beside an image",
        "torch.cat([F.conv2d(x, y, padding=1, groups=5), x], 1)",
        (*IMAGES, (5, 1, 3, 3)),
    ),
    Operator(
        "pointwise conv of few channels and skip",
        "F.relu(F.conv2d(x, y, z) + x)",
        ((2, 30, 9, 11), (30, 30, 1, 1), (30,)),
    ),
    Operator(
        "strided conv of few channels, scaled in each image",
        "torch.tanh(F.conv2d(x, y, stride=2, padding=1)) * z[:, :, None, None]",
        ((3, 140, 23, 9), (40, 140, 3, 3), (3, 40)),
    ),
)
POOLS = (
    Operator("max pool", "F.max_pool2d(x, 3, 2, 1)", ((2, 70, 14, 11),)),
    Operator("max pool with a rest", "F.max_pool2d(x, 2, ceil_mode=True)", IMAGES),
    Operator("dilated max pool", "F.max_pool2d(x, 2, 1, dilation=2)", IMAGES),
    Operator("max pool of sequences", "F.max_pool1d(x, 3, 2)", ((2, 5, 40),)),
    Operator("average pool", "torch.relu(F.avg_pool2d(x, (2, 3)))", IMAGES),
    Operator("padded average pool", "F.avg_pool2d(x, 3, 1, 1)", IMAGES),
    Operator("average pool of volumes", "F.avg_pool3d(x, 2)", ((2, 3, 5, 8, 7),)),
    Operator("global average", "F.adaptive_avg_pool2d(x, 1)", IMAGES),
    Operator("average of quarters", "F.adaptive_avg_pool2d(x, 2)", ((2, 5, 8, 10),)),
    Operator("doubled pixels", "F.interpolate(x, scale_factor=2) + 1", IMAGES),
    Operator("max pool of wide lines", "F.max_pool2d(x, 3, 2, 1)", ((2, 70, 7, 60),)),
    Operator("dilated max pool of wide lines", "F.max_pool2d(x, 3, 1, 1, 2)", ((2, 5, 9, 70),)),
    Operator("padded average pool of wide lines", "F.avg_pool2d(x, 3, 1, 1)", ((2, 5, 9, 71),)),
    Operator("max pool of wide volumes", "F.max_pool3d(x, 3, 2, 1)", ((2, 3, 5, 8, 40),)),
    Operator(
        "pooled conv",
        "F.max_pool2d(F.relu(F.conv2d(x, y, z, padding=1)), 2)",
        (*IMAGES, (70, 5, 3, 3), (70,)),
    ),
    Operator(
        "pooled conv of many channels",
        "F.avg_pool2d(F.conv2d(x, y, stride=2, padding=2), (3, 2)) + 1",
        ((2, 130, 23, 19), (140, 130, 5, 3)),
    ),
    Operator(
        "pooled conv of wide lines",
        "F.max_pool2d(F.conv2d(x, y), (2, 3))",
        ((1, 3, 8, 1200), (80, 3, 3, 3)),
    ),
    Operator(
        "pooled conv of sequences",
        "F.avg_pool1d(F.silu(F.conv1d(x, y, padding=1)), 3)",
        ((2, 5, 1100), (7, 5, 3)),
    ),
    Operator(
        "pooled conv and its input",
        "F.max_pool2d(F.conv2d(x, y) * z[:, :, None, None], 2).flatten(1)",
        ((3, 4, 9, 10), (5, 4, 2, 3), (3, 5)),
    ),
)
NORMS = (
    Operator("group norm", "F.group_norm(x, 3, y, z)", ((2, 6, 7, 8), (6,), (6,))),
    Operator(
        "instance norm of single pixels",
        "(F.instance_norm(x[:, None, None])[:, 0, 0] + y) * y",
        ((200, 1024), (200, 1024)),
    ),
    Operator("group norm of sequences", "F.group_norm(x, 3)", ((2, 6, 40),)),
    Operator("group norm of features", "F.group_norm(x, 4, y, z)", ((70, 48), (48,), (48,))),
    Operator("group norm of single channels", "F.group_norm(x, 6, y)", ((2, 6, 7, 8), (6,))),
    Operator(
        "instance norm", "F.instance_norm(x, weight=y, bias=z)", ((2, 6, 3, 7, 8), (6,), (6,))
    ),
    Operator(
        "batch norm of the batch", "F.batch_norm(x, None, None, y, z, True)", (*IMAGES, (5,), (5,))
    ),
    Operator("variance of channels", "x.var((0, 2, 3))", IMAGES),
    Operator("deviation of images", "x.std((1, 2, 3), keepdim=True)", IMAGES),
    Operator("largest of channels", "x.abs().amax((0, 2, 3))", IMAGES),
    Operator("channel mean", "x - x.mean((0, 2, 3), keepdim=True)", IMAGES),
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", [*CONVOLUTIONS, *POOLS, *NORMS], ids=lambda o: o.name)
def test_kernel_of_window_is_right(
    operator: Operator, dtype: str, make_task: MakeTask, solve: Solve
) -> None:
    if "3d(" in operator.body and "pool" in operator.body and dtype == "bfloat16":
        pytest.skip("PyTorch pools no volumes of bfloat16 on the CPU")
    verdict = solve(make_task(operator.source(dtype)))
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics


TWO_SIZES: tuple[tuple[Operator, Shapes], ...] = (
    (CONVOLUTIONS[2], ((3, 70, 10, 8), (140, 70, 3, 3))),
    (CONVOLUTIONS[9], ((2, 5, 3, 6, 4), (4, 5, 3, 3, 3))),
    (CONVOLUTIONS[14], ((3, 9, 5, 7), (9, 4, 4, 4), (4,))),
    (CONVOLUTIONS[-7], ((40, 37, 10, 8), (37, 1, 5, 3), (37,))),
    (POOLS[0], ((3, 5, 9, 12),)),
    (POOLS[10], ((3, 5, 40, 9),)),
    (CONVOLUTIONS[-2], ((1, 30, 40, 28), (30, 30, 1, 1), (30,))),
    (POOLS[-4], ((3, 140, 14, 40), (70, 140, 5, 3))),
    (NORMS[0], ((1, 9, 5, 6), (9,), (9,))),
)


@pytest.mark.parametrize("target", [Target.TRN2, Target.TRN3])
@pytest.mark.parametrize(("operator", "other"), TWO_SIZES, ids=lambda o: getattr(o, "name", ""))
def test_one_window_kernel_fits_every_shape_set(
    operator: Operator, other: Shapes, target: Target, make_task: MakeTask, solve: Solve
) -> None:
    task: Task = make_task(operator.source("float32"))
    larger = make_task(operator.source("float32", other))
    verdict = solve(replace(task, perf=replace(larger.dev, name="perf")), target)
    assert verdict.stage is Stage.RIGHT, verdict.diagnostics
    assert verdict.latency_ns is not None


REFUSED: tuple[tuple[str, Shapes, str], ...] = (
    ("F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)", IMAGES, "inside"),
    ("F.conv2d(x, y, padding=3)", (*IMAGES, (6, 5, 1, 1)), "reads nothing"),
    ("F.conv1d(x, y)", ((1, 3, 400_000), (4, 3, 3)), "pixels do not fit SBUF"),
)


@pytest.mark.parametrize(("body", "shapes", "named"), REFUSED, ids=[c[0] for c in REFUSED])
def test_window_that_is_not_covered_is_named(
    body: str, shapes: Shapes, named: str, make_task: MakeTask
) -> None:
    task = make_task(Operator("refused", body, shapes).source("float32"))
    with pytest.raises(UnsupportedError, match=named):
        write_kernel(task, Target.TRN2)
