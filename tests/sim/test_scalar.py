"""Activations with scale, bias and the registers behind them."""

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ReduceCommand
from tests.sim.build import Array, Builder, View, simulate

F32, BF16 = DType.FLOAT32, DType.BFLOAT16


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


def in_order(values: Array) -> Array:
    total = np.zeros(values.shape[0], np.float32)
    for i in range(values.shape[1]):
        total = total + values[:, i]
    return total


COLUMN = np.abs(normal(16, 1, name="c"))


def as_float(operand: Array | float) -> Array:
    return np.asarray(operand, np.float32)


@pytest.mark.parametrize("scale", [1.0, 0.5, COLUMN])
@pytest.mark.parametrize("bias", [None, 0.0, 0.25, COLUMN])
def test_scale_and_bias_come_before_the_function(
    scale: Array | float, bias: Array | float | None
) -> None:
    x = normal(16, 20)
    operands: dict[str, Array | float | int | None] = {"data": x, "scale": scale, "bias": bias}
    got = simulate("activation", ((16, 20), F32), operands, op="square")
    wanted = x * as_float(scale) + (0 if bias is None else as_float(bias))
    assert got.tolist() == (wanted * wanted).tolist()


@pytest.mark.parametrize("dtype", [BF16, DType.FLOAT16, DType.INT32])
def test_bias_of_any_format_is_taken_as_float32(dtype: DType) -> None:
    x, column = normal(16, 20), (4 * normal(16, 1, name="c")).astype(dtype.numpy_dtype)
    got = simulate("activation", ((16, 20), F32), {"data": x, "bias": column}, op="copy")
    assert got.tolist() == (x + column.astype(np.float32)).tolist()


@pytest.mark.parametrize("op", ["gelu", "exp", "silu"])
def test_result_is_rounded_once(op: str) -> None:
    x = normal(16, 20)
    fine = simulate("activation", ((16, 20), F32), {"data": x}, op=op)
    coarse = simulate("activation", ((16, 20), BF16), {"data": x}, op=op)
    assert coarse.tolist() == fine.astype(BF16.numpy_dtype).tolist()


@pytest.mark.parametrize("shape", [(8, 20), (1, 20), (8, 1), (8, 4, 5)])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_activation_reduce_adds_the_unrounded_results(shape: tuple[int, ...], dtype: DType) -> None:
    x = normal(*shape)
    builder = Builder()
    dst, total = builder.tile(shape, dtype), builder.tile((shape[0], 1))
    builder.add(
        "activation_reduce",
        {"dst": dst, "data": builder.load("x", x), "reduce_res": total},
        op="exp",
        reduce_op="add",
    )
    builder.store(dst)
    builder.store(total)
    tile, sums = builder.outputs()
    exact = np.exp(x)
    assert tile.tolist() == exact.astype(dtype.numpy_dtype).tolist()
    assert sums[:, 0].tolist() == in_order(exact.reshape(shape[0], -1)).tolist()


def add_ones(builder: Builder, data: View, command: ReduceCommand, total: View | None) -> None:
    builder.add(
        "activation",
        {"dst": builder.tile((4, 3)), "data": data} | ({"reduce_res": total} if total else {}),
        op="copy",
        reduce_op=None if command in (ReduceCommand.IDLE, ReduceCommand.RESET) else "add",
        reduce_cmd=command,
    )


@pytest.mark.parametrize(
    ("commands", "wanted"),
    [
        (["reset_reduce", "reduce"], 6),
        (["reset_reduce", "idle", "reduce"], 6),
        (["reset_reduce", "reset_reduce"], 3),
        (["reset_reduce", "reset", "reduce"], 3),
        (["reset_reduce", "idle"], 3),
        (["reset"], 0),
        (["reduce"], float("nan")),
    ],
)
def test_registers_follow_their_commands(commands: list[str], wanted: float) -> None:
    builder = Builder()
    data, total = builder.load("x", np.ones((4, 3), np.float32)), builder.tile((4, 1))
    for i, command in enumerate(commands):
        is_last = i == len(commands) - 1
        add_ones(builder, data, ReduceCommand(command), total if is_last else None)
    builder.store(total)
    assert builder.outputs()[0][:, 0] == pytest.approx([wanted] * 4, nan_ok=True)


def test_registers_belong_to_lanes() -> None:
    """Partitions 32..63 accumulate apart from partitions 0..31."""
    builder = Builder()
    data, total = builder.load("x", np.ones((64, 3), np.float32)), builder.tile((32, 1))
    for start in (0, 32, 0):
        builder.add(
            "activation",
            {
                "dst": builder.tile((32, 3)),
                "data": builder.view(data, rows=(start, 1, 32)),
                "reduce_res": total,
            },
            op="copy",
            reduce_op="add",
            reduce_cmd=ReduceCommand.RESET_REDUCE,
        )
    builder.add(
        "activation",
        {
            "dst": builder.tile((32, 3)),
            "data": builder.view(data, rows=(32, 1, 32)),
            "reduce_res": total,
        },
        op="copy",
        reduce_op="add",
        reduce_cmd=ReduceCommand.REDUCE,
    )
    builder.store(total)
    assert builder.outputs()[0][:, 0].tolist() == [6] * 32


def test_reduction_may_be_written_into_the_destination() -> None:
    x = normal(4, 6)
    builder = Builder()
    dst = builder.tile((4, 6))
    builder.add(
        "activation",
        {
            "dst": dst,
            "data": builder.load("x", x),
            "reduce_res": builder.columns(dst, 5, 6),
        },
        op="copy",
        reduce_op="add",
        reduce_cmd=ReduceCommand.RESET_REDUCE,
    )
    builder.store(dst)
    got = builder.outputs()[0]
    assert got[:, :5].tolist() == x[:, :5].tolist()
    assert got[:, 5].tolist() == in_order(x).tolist()


@pytest.mark.parametrize(
    ("op", "bad", "good"),
    [
        ("log", [0.0, 1.0], [2.0**-64, 2.0**64]),
        ("sqrt", [-1.0, 1.0], [0.0, 4.0]),
        ("rsqrt", [0.0, 1.0], [2.0**-87, 1.0]),
        ("reciprocal", [0.0, 1.0], [-1.0, 2.0**42]),
        ("sin", [4.0, 0.0], [np.float32(np.pi), -np.float32(np.pi)]),
        ("arctan", [2.0, 0.0], [1.5, -1.5]),
    ],
)
def test_an_input_outside_of_the_valid_range_is_reported(
    op: str, bad: list[float], good: list[float]
) -> None:
    for values, codes in ((bad, ["NK503"]), (good, [])):
        builder = Builder(Target.TRN2)
        dst = builder.tile((1, 2))
        builder.add(
            "activation",
            {"dst": dst, "data": builder.load("x", np.array([values], np.float32))},
            op=op,
        )
        builder.store(dst)
        result = builder.run()
        assert [finding.code for finding in result.findings] == codes


def test_range_is_checked_after_scale_and_bias_and_once_for_each_place() -> None:
    builder = Builder()
    data, dst = builder.load("x", np.ones((1, 2), np.float32)), builder.tile((1, 2))
    for _ in range(3):
        builder.add("activation", {"dst": dst, "data": data, "scale": -2.0, "bias": 1.0}, op="log")
    builder.store(dst)
    (finding,) = builder.run().findings
    assert (finding.got, finding.where[0].file) == ("-1 to -1", "kernel.py")
