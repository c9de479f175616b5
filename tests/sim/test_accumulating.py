"""tensor_scalar_cumulative, exponential and activate2: what they give and leave in registers."""

from collections.abc import Callable

import numpy as np
import pytest

from nki_agent.base.errors import KernelError
from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import ReduceCommand
from tests.sim.build import Array, Builder, Operands, View, simulate
from tests.sim.traced import run_kernel

F32, BF16 = DType.FLOAT32, DType.BFLOAT16
RESET, ADD_ON = ReduceCommand.RESET_REDUCE, ReduceCommand.REDUCE
LOAD = ReduceCommand.LOAD_REDUCE


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


OPS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
START = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


def run_register(values: Array, op: str, start: Array) -> Array:
    """register = op(value, register), column by column in float32."""
    register, out = start.astype(np.float32), np.empty_like(values)
    for i in range(values.shape[1]):
        register = out[:, i] = OPS[op](values[:, i], register)
    return out


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (16, 300), (128, 33)])
def test_each_element_is_the_register_so_far(op: str, shape: tuple[int, int]) -> None:
    x = normal(*shape)
    operands: dict[str, Array | float | int | None] = {"src": x, "imm0": 1.01}
    got = simulate("tensor_scalar_cumulative", (shape, F32), operands, op0="multiply", op1=op)
    wanted = run_register(x * np.float32(1.01), op, np.full(shape[0], START[op]))
    assert got.tobytes() == wanted.tobytes()


def test_the_register_is_not_rounded_with_the_destination() -> None:
    x = np.full((2, 300), 1.0, np.float32)
    operands: dict[str, Array | float | int | None] = {"src": x, "imm0": 0.0}
    got = simulate("tensor_scalar_cumulative", ((2, 300), BF16), operands, op0="add", op1="add")
    assert got[0, -1] == 300
    assert got[0, 256] == 256


def test_integers_are_rounded_and_saturate() -> None:
    x = np.full((1, 6), 60, np.uint8)
    operands: dict[str, Array | float | int | None] = {"src": x, "imm0": 0.0}
    got = simulate(
        "tensor_scalar_cumulative", ((1, 6), DType.UINT8), operands, op0="add", op1="add"
    )
    assert got.tolist() == [[60, 120, 180, 240, 255, 255]]


@pytest.mark.parametrize("op", OPS)
def test_commands_start_from_the_register_or_a_given_value(op: str) -> None:
    x, column = normal(8, 20), normal(8, 1, name="c")
    builder = Builder()
    src = builder.load("x", x)
    outs = []
    start = builder.load("c", column)
    for command, initial in ((RESET, None), (ADD_ON, None), (LOAD, start)):
        dst = builder.tile((8, 20))
        operands: Operands = {"dst": dst, "src": src, "imm0": 2.0, "imm1": initial}
        builder.add(
            "tensor_scalar_cumulative", operands, op0="multiply", op1=op, reduce_cmd=command
        )
        outs.append(dst)
    for dst in outs:
        builder.store(dst)
    values = x * np.float32(2)
    first = run_register(values, op, np.full(8, START[op]))
    wanted = first, run_register(values, op, first[:, -1]), run_register(values, op, column[:, 0])
    assert [got.tolist() for got in builder.outputs()] == [w.tolist() for w in wanted]


def test_cumulative_may_overwrite_its_source_and_walks_views() -> None:
    x = normal(4, 12)
    builder = Builder()
    tile = builder.load("x", x)
    half = builder.view(tile, free=((8, 6),))
    builder.add(
        "tensor_scalar_cumulative", {"dst": half, "src": half, "imm0": 0.0}, op0="add", op1="add"
    )
    builder.store(tile)
    wanted = x.copy()
    wanted[:, ::2] = run_register(x[:, ::2], "add", np.zeros(4))
    assert builder.outputs()[0].tolist() == wanted.tolist()


# exponential.


def exponential(builder: Builder, src: View, command: ReduceCommand, **more: View | float) -> View:
    result = builder.tile((src.pattern.partitions, 1))
    dst = builder.tile(src.pattern.shape)
    operands: Operands = {"dst": dst, "src": src, "reduce_res": result, **more}
    builder.add("exponential", operands, reduce_cmd=command)
    return result


def test_exponential_subtracts_the_maximum_and_adds_up() -> None:
    x, top = normal(16, 40), normal(16, 1, name="m")
    builder = Builder(Target.TRN3)
    src, maximum = builder.load("x", x), builder.load("m", top)
    dst, result = builder.tile((16, 40), BF16), builder.tile((16, 1))
    builder.add(
        "exponential",
        {"dst": dst, "src": src, "max_value": maximum, "reduce_res": result},
        reduce_cmd=RESET,
    )
    builder.store(dst)
    builder.store(result)
    got, total = builder.outputs()
    exact = np.exp(x - top)
    assert got.tolist() == exact.astype(BF16.numpy_dtype).tolist()
    assert total[:, 0] == pytest.approx(exact.sum(1), rel=1e-6)


def test_exponential_shares_the_accumulator_of_the_vector_engine() -> None:
    x = normal(8, 16)
    builder = Builder(Target.TRN3)
    src, column = builder.load("x", x), builder.load("c", np.full((8, 1), 5.0, np.float32))
    builder.add(
        "tensor_scalar_cumulative",
        {"dst": builder.tile((8, 16)), "src": src, "imm0": 0.0},
        op0="multiply",
        op1="add",
    )
    results = [
        exponential(builder, src, ADD_ON),
        exponential(builder, src, LOAD, reduce_init=column),
        exponential(builder, src, LOAD, reduce_init=2.0),
        exponential(builder, src, ReduceCommand.IDLE),
    ]
    for result in results:
        builder.store(result)
    outputs = builder.outputs()
    total = np.exp(x).sum(1)
    for got, more in zip(outputs, (0.0, 5.0, 2.0), strict=False):
        assert got[:, 0] == pytest.approx(total + more, rel=1e-6)
    assert bool(np.isnan(outputs[3]).all())


# activate2.

IMMEDIATE, OTHER = 1.5, -0.25
PAIRS: dict[tuple[str, str], Callable[[Array], Array]] = {
    ("multiply", "add"): lambda x: x * np.float32(IMMEDIATE) + np.float32(OTHER),
    ("multiply", "subtract"): lambda x: x * np.float32(IMMEDIATE) - np.float32(OTHER),
    ("multiply", "bypass"): lambda x: x * np.float32(IMMEDIATE),
    ("add", "bypass"): lambda x: x + np.float32(IMMEDIATE),
    ("subtract", "bypass"): lambda x: x - np.float32(IMMEDIATE),
    ("bypass", "bypass"): lambda x: x,
}


@pytest.mark.parametrize("pair", PAIRS)
def test_activate2_combines_before_the_function(pair: tuple[str, str]) -> None:
    x = normal(16, 20)
    got = simulate(
        "activate2",
        ((16, 20), F32),
        {"data": x, "imm0": IMMEDIATE, "imm1": OTHER},
        target=Target.TRN3,
        op="square",
        op0=pair[0],
        op1=pair[1],
    )
    wanted = PAIRS[pair](x)
    assert got.tolist() == (wanted * wanted).tolist()


def test_activate2_turns_operands_round_and_takes_columns() -> None:
    x, first, second = normal(8, 9), normal(8, 1, name="a"), normal(8, 1, name="b")
    operands: dict[str, Array | float | int | None] = {"data": x, "imm0": first, "imm1": second}
    got = simulate(
        "activate2",
        ((8, 9), F32),
        operands,
        target=Target.TRN3,
        op="copy",
        op0="multiply",
        op1="subtract",
        reverse1=True,
    )
    assert got.tolist() == (second - x * first).tolist()
    got = simulate(
        "activate2",
        ((8, 9), F32),
        operands,
        target=Target.TRN3,
        op="copy",
        op0="subtract",
        op1="bypass",
        reverse0=True,
    )
    assert got.tolist() == (first - x).tolist()


@pytest.mark.parametrize("slope", [0.0, 0.25, "column"])
def test_prelu_scales_what_is_negative(slope: float | str) -> None:
    x = normal(8, 9)
    x[0, 0] = np.nan
    parameter = normal(8, 1, name="p") if isinstance(slope, str) else slope
    got = simulate(
        "activate2",
        ((8, 9), F32),
        {"data": x, "imm0": 0.0, "imm1": 0.0, "relu_param": parameter},
        target=Target.TRN3,
        op="prelu",
        op0="bypass",
        op1="bypass",
    )
    wanted = np.where(x < 0, x * np.asarray(parameter, np.float32), x)
    assert got.tobytes() == wanted.tobytes()


def test_prelu_needs_the_instruction_with_a_slope() -> None:
    with pytest.raises(KernelError, match="prelu"):
        simulate("activation", ((8, 9), F32), {"data": normal(8, 9)}, op="prelu")


def magnitude(x: Array, pick: str) -> Array:
    sizes = np.abs(x)
    index = sizes.argmax(1) if pick == "abs_max" else sizes.argmin(1)
    picked: Array = x[np.arange(len(x)), index]
    return picked


REDUCED: dict[str, Callable[[Array], Array]] = {
    "add": lambda x: x.sum(1),
    "maximum": lambda x: x.max(1),
    "minimum": lambda x: x.min(1),
    "abs_max": lambda x: magnitude(x, "abs_max"),
    "abs_min": lambda x: magnitude(x, "abs_min"),
}


def activate(
    builder: Builder, data: View, op: str | None, command: ReduceCommand, result: View | None
) -> None:
    dst = builder.tile(data.pattern.shape)
    builder.add(
        "activate2",
        {"dst": dst, "data": data, "imm0": 0.0, "imm1": 0.0, "reduce_res": result},
        op="copy",
        op0="bypass",
        op1="bypass",
        reduce_op=op,
        reduce_cmd=command,
    )


@pytest.mark.parametrize("op", REDUCED)
def test_activate2_reduces_into_the_registers_over_tiles(op: str) -> None:
    x, y = normal(16, 20), normal(16, 20, name="y")
    builder = Builder(Target.TRN3)
    result = builder.tile((16, 1))
    activate(builder, builder.load("x", x), op, RESET, None)
    activate(builder, builder.load("y", y), None, ReduceCommand.IDLE, None)
    activate(builder, builder.load("z", y), op, ADD_ON, result)
    builder.store(result)
    wanted = REDUCED[op](np.concatenate([x, y], 1))
    assert builder.outputs()[0][:, 0] == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    ("op", "identity"),
    [
        ("add", 0.0),
        ("maximum", -np.inf),
        ("minimum", np.inf),
        ("abs_max", 0.0),
        ("abs_min", np.inf),
    ],
)
def test_reset_gives_the_identity_of_the_reduction(op: str, identity: float) -> None:
    builder = Builder(Target.TRN3)
    result = builder.tile((4, 1))
    activate(builder, builder.load("x", normal(4, 5)), op, ReduceCommand.RESET, result)
    builder.store(result)
    assert builder.outputs()[0].tolist() == [[identity]] * 4


@pytest.mark.parametrize("op", REDUCED)
def test_registers_that_were_never_reset_are_poison(op: str) -> None:
    builder = Builder(Target.TRN3)
    result = builder.tile((4, 1))
    activate(builder, builder.load("x", normal(4, 5)), op, ADD_ON, result)
    builder.store(result)
    assert bool(np.isnan(builder.outputs()[0]).all())


def test_of_equal_magnitudes_the_last_is_kept() -> None:
    x = np.array([[2.0, -3.0, 3.0, 1.0, -1.0]], np.float32)
    for op, wanted in (("abs_max", 3.0), ("abs_min", -1.0)):
        builder = Builder(Target.TRN3)
        result = builder.tile((1, 1))
        activate(builder, builder.load("x", x), op, RESET, result)
        builder.store(result)
        assert builder.outputs()[0].tolist() == [[wanted]]


def test_activation_and_activate2_share_the_registers() -> None:
    x = normal(8, 10)
    builder = Builder(Target.TRN3)
    data, result = builder.load("x", x), builder.tile((8, 1))
    builder.add(
        "activation",
        {"dst": builder.tile((8, 10)), "data": data},
        op="copy",
        reduce_op="add",
        reduce_cmd=RESET,
    )
    activate(builder, data, "add", ADD_ON, result)
    builder.store(result)
    assert builder.outputs()[0][:, 0] == pytest.approx(2 * x.sum(1), rel=1e-5, abs=1e-5)


# Registers that nothing has started.

START_ADD = "op0=nl.multiply, operand0=2.0, reduce_op=nl.add"


@pytest.mark.parametrize(
    ("call", "is_flagged"),
    [
        ("nisa.activation(t, nl.exp, t, reduce_op=nl.add, reduce_res=c, {})", True),
        ("nisa.tensor_scalar_reduce(t, t, reduce_res=c, " + START_ADD + ", {})", True),
        ("nisa.tensor_scalar_cumulative(t, t, nl.multiply, nl.add, 2.0, {})", True),
        ("nisa.activation_reduce(t, nl.exp, t, nl.add, c)", False),
    ],
)
@pytest.mark.parametrize("is_started", [False, True])
def test_going_on_from_registers_that_hold_nothing_is_flagged(
    call: str, *, is_flagged: bool, is_started: bool
) -> None:
    name = call.partition("(")[0]
    first = call.format("reduce_cmd=nisa.reduce_cmd.reset_reduce") if is_started else ""
    text = f"""
out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
t, c = nl.load(x), nl.ndarray((4, 1), dtype=nl.float32)
{first}
{call.format("reduce_cmd=nisa.reduce_cmd.reduce")}
nisa.dma_copy(dst=out, src=t)
return out
"""
    findings = run_kernel(text, {"x": normal(4, 8)}).findings
    assert [f.code for f in findings] == (["NK506"] if is_flagged and not is_started else [])
    assert all(name.removeprefix("nisa.") in str(f) for f in findings)
