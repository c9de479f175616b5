"""Reductions, strictly in order, and the Vector Engine's accumulator registers."""

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ReduceCommand
from tests.sim.build import Array, Builder, Operands, simulate

F32, BF16 = DType.FLOAT32, DType.BFLOAT16
LOWEST = float(np.finfo(np.float32).min)


def uniform(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).random(shape, np.float32)


def in_order(values: Array, op: str) -> Array:
    """The reduction of the last axis, one element after the other, in float32."""
    total = values[..., 0].copy()
    for i in range(1, values.shape[-1]):
        match op:
            case "add":
                total = total + values[..., i]
            case "subtract":
                total = total - values[..., i]
            case _:
                total = total * values[..., i]
    return total


@pytest.mark.parametrize("partitions", [1, 2, 3, 16, 17, 128])
@pytest.mark.parametrize("size", [1, 2, 9, 127, 128, 512, 513, 1500])
def test_sums_run_from_the_first_to_the_last(partitions: int, size: int) -> None:
    values = uniform(partitions, size)
    got = simulate("tensor_reduce", ((partitions, 1), F32), {"data": values}, op="add", axis=(1,))
    assert got[:, 0].tolist() == in_order(values, "add").tolist()


@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
def test_ordered_operators_reduce_in_order(op: str) -> None:
    values = uniform(8, 40) + np.float32(0.5)
    got = simulate("tensor_reduce", ((8, 1), F32), {"data": values}, op=op, axis=(1,))
    assert got[:, 0].tolist() == in_order(values, op).tolist()


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("partitions", [1, 16, 128])
@pytest.mark.parametrize("size", [1, 40, 300])
def test_extremes_are_found(op: str, partitions: int, size: int) -> None:
    values = uniform(partitions, size) - np.float32(0.5)
    got = simulate("tensor_reduce", ((partitions, 1), F32), {"data": values}, op=op, axis=(1,))
    wanted = values.max(1) if op == "maximum" else values.min(1)
    assert got[:, 0].tolist() == wanted.tolist()


@pytest.mark.parametrize("axes", [(1, 2, 3), (2, 3), (3,)])
def test_the_last_axes_are_reduced(axes: tuple[int, ...]) -> None:
    values = uniform(4, 3, 5, 7)
    kept = values.shape[: 4 - len(axes)]
    got = simulate(
        "tensor_reduce", ((4, int(np.prod(kept[1:]))), F32), {"data": values}, op="add", axis=axes
    )
    assert got.tolist() == in_order(values.reshape(4, got.shape[1], -1), "add").tolist()


def test_negate_turns_the_result_over() -> None:
    values = uniform(4, 30)
    got = simulate(
        "tensor_reduce", ((4, 1), F32), {"data": values}, op="maximum", axis=(1,), negate=True
    )
    assert got[:, 0].tolist() == (-values.max(1)).tolist()


def test_the_sum_is_rounded_once() -> None:
    values = uniform(4, 30).astype(BF16.numpy_dtype)
    got = simulate("tensor_reduce", ((4, 1), BF16), {"data": values}, op="add", axis=(1,))
    wanted = in_order(values.astype(np.float32), "add").astype(BF16.numpy_dtype)
    assert got[:, 0].tolist() == wanted.tolist()


@pytest.mark.parametrize("op", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bit_patterns_are_reduced(op: str) -> None:
    values = rng_for(0, op).integers(-128, 128, (5, 9)).astype(np.int8)
    got = simulate("tensor_reduce", ((5, 1), DType.INT8), {"data": values}, op=op, axis=(1,))
    assert got[:, 0].tolist() == getattr(np, op).reduce(values, axis=1).tolist()


@pytest.mark.parametrize("op", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize("size", [1, 9])
def test_truth_is_reduced_to_one_and_zero(op: str, size: int) -> None:
    values = rng_for(0, op).integers(0, 3, (30, size)).astype(np.float32)
    got = simulate("tensor_reduce", ((30, 1), F32), {"data": values}, op=op, axis=(1,))
    wanted = getattr(np, op).reduce(values != 0, axis=1)
    assert got[:, 0].tolist() == wanted.astype(np.float32).tolist()


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_tensor_scalar_reduce_gives_tile_and_reduction(op: str) -> None:
    values = uniform(8, 20) + np.float32(0.5)
    builder = Builder()
    data, dst, total = builder.load("x", values), builder.tile((8, 20), BF16), builder.tile((8, 1))
    builder.add(
        "tensor_scalar_reduce",
        {"dst": dst, "data": data, "operand0": 2.0, "reduce_res": total},
        op0="multiply",
        reduce_op=op,
        reduce_res_negate=True,
    )
    builder.store(dst)
    builder.store(total)
    tile, reduced = builder.outputs()
    doubled = values * np.float32(2)
    wanted = {"maximum": doubled.max(1), "minimum": doubled.min(1)}
    assert tile.tolist() == doubled.astype(BF16.numpy_dtype).tolist()
    exact = wanted[op] if op in wanted else in_order(doubled, op)
    assert reduced[:, 0].tolist() == (-exact).tolist()


def chain(commands: list[tuple[ReduceCommand, float | None]]) -> Array:
    """Sums of ones over four elements, one call for each command; the registers in the end."""
    builder = Builder()
    data, dst = builder.load("x", np.ones((4, 4), np.float32)), builder.tile((4, 4))
    total = builder.tile((4, 1))
    for command, initial in commands:
        builder.add(
            "tensor_scalar_reduce",
            {
                "dst": dst,
                "data": data,
                "operand0": 0.0,
                "reduce_res": total,
                "reduce_init": initial,
            },
            op0="add",
            reduce_op="add",
            reduce_cmd=command,
        )
    builder.store(total)
    return builder.outputs()[0][:, 0]


def test_registers_accumulate_over_instructions() -> None:
    reset, reduce, load = (
        ReduceCommand.RESET_REDUCE,
        ReduceCommand.REDUCE,
        ReduceCommand.LOAD_REDUCE,
    )
    assert chain([(reset, None), (reduce, None)]).tolist() == [8] * 4
    assert chain([(reset, None), (reset, None)]).tolist() == [4] * 4
    assert chain([(load, 10.0), (reduce, None)]).tolist() == [18] * 4


def test_registers_hold_nothing_known_at_the_start() -> None:
    assert bool(np.isnan(chain([(ReduceCommand.REDUCE, None)])).all())


def test_registers_start_anew_with_every_run() -> None:
    builder = Builder()
    data, dst = builder.load("x", np.ones((4, 4), np.float32)), builder.tile((4, 4))
    total = builder.tile((4, 1))
    operands: Operands = {"dst": dst, "data": data, "operand0": 0.0, "reduce_res": total}
    for command in (ReduceCommand.REDUCE, ReduceCommand.RESET_REDUCE):
        builder.add(
            "tensor_scalar_reduce", operands, op0="add", reduce_op="add", reduce_cmd=command
        )
        builder.store(total)
    executable = builder.compile()
    for _ in range(2):
        first, second = executable.run(builder.arrays).outputs
        assert bool(np.isnan(first).all())
        assert second[:, 0].tolist() == [4] * 4


def test_an_idle_instruction_leaves_the_vector_registers_undefined() -> None:
    builder = Builder()
    data, dst = builder.load("x", np.ones((4, 4), np.float32)), builder.tile((4, 4))
    predicate = builder.load("p", np.ones((4, 4), np.uint8))
    total = builder.tile((4, 1))
    builder.add(
        "select_reduce",
        SELECT | {"dst": dst, "on_true": data, "predicate": predicate},
        reduce_cmd=ReduceCommand.RESET_REDUCE,
    )
    builder.add("select_reduce", SELECT | {"dst": dst, "on_true": data, "predicate": predicate})
    builder.add(
        "select_reduce",
        SELECT | {"dst": dst, "on_true": data, "predicate": predicate, "reduce_res": total},
        reduce_cmd=ReduceCommand.REDUCE,
    )
    builder.store(total)
    assert bool(np.isnan(builder.outputs()[0]).all())


SELECT: Operands = {"on_false": -5.0}


@pytest.mark.parametrize("reverse", [False, True])
def test_select_reduce_chooses_and_finds_the_maximum(*, reverse: bool) -> None:
    values = uniform(8, 30)
    predicate = rng_for(0, "p").integers(0, 2, (8, 30)).astype(np.int16)
    column = uniform(8, 1, name="c")
    builder = Builder()
    dst, total = builder.tile((8, 30)), builder.tile((8, 1))
    operands: Operands = {
        "dst": dst,
        "predicate": builder.load("p", predicate),
        "on_true": builder.load("x", values),
        "on_false": builder.load("c", column),
        "reduce_res": total,
    }
    builder.add(
        "select_reduce",
        operands,
        reduce_cmd=ReduceCommand.RESET_REDUCE,
        reverse_pred=reverse,
    )
    builder.store(dst)
    builder.store(total)
    tile, largest = builder.outputs()
    wanted = np.where((predicate != 0) ^ reverse, values, column)
    assert tile.tolist() == wanted.tolist()
    assert largest[:, 0].tolist() == wanted.max(1).tolist()


def test_range_select_keeps_a_range_of_positions() -> None:
    values = uniform(4, 10) - np.float32(2)
    low, high = (
        np.array([[0], [2], [5], [9]], np.float32),
        np.array([[3], [4], [5], [20]], np.float32),
    )
    builder = Builder()
    dst, total = builder.tile((4, 10), BF16), builder.tile((4, 1))
    builder.add(
        "range_select",
        {
            "dst": dst,
            "on_true_tile": builder.load("x", values),
            "bound0": builder.load("low", low),
            "bound1": builder.load("high", high),
            "reduce_res": total,
        },
        comp_op0="greater_equal",
        comp_op1="less",
        range_start=1,
    )
    builder.store(dst)
    builder.store(total)
    tile, largest = builder.outputs()
    position = 1 + np.arange(10)
    wanted = np.where((position >= low) & (position < high), values, np.float32(LOWEST))
    assert (
        tile.astype(np.float32).tolist()
        == wanted.astype(BF16.numpy_dtype).astype(np.float32).tolist()
    )
    # In bfloat16 the lowest float32 is -infinity; the maximum stays float32.
    assert largest[:, 0].tolist() == wanted.max(1).tolist()
    assert tile.astype(np.float32)[2].tolist() == [-np.inf] * 10


@pytest.mark.parametrize("size", [1, 2, 7, 512])
def test_bn_stats_splits_even_and_odd(size: int) -> None:
    values = uniform(8, size)
    got = simulate("bn_stats", ((8, 6), F32), {"data": values})
    wide = values.astype(np.float64)
    for half in (0, 1):
        part = wide[:, half::2]
        count = part.shape[1]
        mean = part.mean(1) if count else np.zeros(8)
        spread = part.var(1) * count if count else np.zeros(8)
        wanted = np.stack([np.full(8, count), mean, spread], 1)
        assert got[:, 3 * half : 3 * half + 3] == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def test_bn_aggr_puts_groups_together() -> None:
    values = uniform(8, 700)
    builder = Builder()
    data, stats, out = builder.load("x", values), builder.tile((8, 12)), builder.tile((8, 2))
    for i, (start, stop) in enumerate(((0, 512), (512, 700))):
        part = builder.columns(stats, 6 * i, 6 * i + 6)
        builder.add("bn_stats", {"dst": part, "data": builder.columns(data, start, stop)})
    builder.add("bn_aggr", {"dst": out, "data": stats})
    builder.store(out)
    wide = values.astype(np.float64)
    wanted = np.stack([wide.mean(1), wide.var(1)], 1)
    assert builder.outputs()[0] == pytest.approx(wanted, rel=1e-5)
