"""Element-wise instructions against NumPy written out."""

from collections.abc import Callable

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory
from tests.sim.build import Array, Builder, simulate

F32, BF16, I32 = DType.FLOAT32, DType.BFLOAT16, DType.INT32


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


def whole(low: int, high: int, *shape: int, dtype: type = np.int32, name: str = "i") -> Array:
    return rng_for(0, name).integers(low, high, shape).astype(dtype)


ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": lambda a, b: np.where(a > b, a, b),
    "minimum": lambda a, b: np.where(a < b, a, b),
    "equal": lambda a, b: np.where(a == b, 1.0, 0.0),
    "not_equal": lambda a, b: np.where(a != b, 1.0, 0.0),
    "less": lambda a, b: np.where(a < b, 1.0, 0.0),
    "less_equal": lambda a, b: np.where(a <= b, 1.0, 0.0),
    "greater": lambda a, b: np.where(a > b, 1.0, 0.0),
    "greater_equal": lambda a, b: np.where(a >= b, 1.0, 0.0),
    "logical_and": lambda a, b: np.where((a != 0) & (b != 0), 1.0, 0.0),
    "logical_or": lambda a, b: np.where((a != 0) | (b != 0), 1.0, 0.0),
    "logical_xor": lambda a, b: np.where((a != 0) ^ (b != 0), 1.0, 0.0),
}
BITWISE: dict[str, Callable[[Array, Array], Array]] = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("op", sorted(ARITHMETIC))
@pytest.mark.parametrize("size", [7, 256])
def test_tensor_tensor_is_the_operator_in_float32(op: str, size: int) -> None:
    a, b = normal(32, size), normal(32, size, name="y")
    b[:, ::3] = a[:, ::3]
    a[:, 1] = 0
    got = simulate("tensor_tensor", ((32, size), F32), {"data1": a, "data2": b}, op=op)
    assert got.tolist() == ARITHMETIC[op](a, b).astype(np.float32).tolist()


@pytest.mark.parametrize("op", sorted(ARITHMETIC))
@pytest.mark.parametrize("size", [7, 256])
@pytest.mark.parametrize("reverse", [False, True])
def test_tensor_scalar_takes_numbers_and_columns(op: str, size: int, *, reverse: bool) -> None:
    a, column = normal(64, size), normal(64, 1, name="c")
    for operand in (0.5, column):
        b = np.broadcast_to(np.float32(operand) if operand is not column else column, a.shape)
        wanted = ARITHMETIC[op](b, a) if reverse else ARITHMETIC[op](a, b)
        got = simulate(
            "tensor_scalar",
            ((64, size), F32),
            {"data": a, "operand0": operand},
            op0=op,
            reverse0=reverse,
        )
        assert got.tolist() == wanted.astype(np.float32).tolist()


def test_tensor_scalar_applies_the_second_operator_to_the_first_result() -> None:
    a, column = normal(16, 9), normal(16, 1, name="c")
    got = simulate(
        "tensor_scalar",
        ((16, 9), F32),
        {"data": a, "operand0": 3.0, "operand1": column},
        op0="multiply",
        op1="subtract",
        reverse1=True,
    )
    assert got.tolist() == (column - a * np.float32(3)).tolist()


def test_unary_operators_need_no_operand() -> None:
    a = normal(16, 9)
    cases = {"abs": np.abs(a), "reciprocal": 1 / a, "bypass": a}
    for op, wanted in cases.items():
        got = simulate("tensor_scalar", ((16, 9), F32), {"data": a, "operand0": 0.0}, op0=op)
        assert got.tolist() == wanted.tolist()
    got = simulate(
        "tensor_scalar", ((16, 9), F32), {"data": np.abs(a), "operand0": 0.0}, op0="rsqrt"
    )
    assert got == pytest.approx(np.abs(a.astype(np.float64)) ** -0.5, rel=2e-7)
    got = simulate("reciprocal", ((16, 9), F32), {"data": a})
    assert got.tolist() == (1 / a).tolist()


def test_logical_not_is_exclusive_or_with_one() -> None:
    a = np.array([[0, 1, 2, 3]], np.float32)
    got = simulate("tensor_scalar", ((1, 4), F32), {"data": a, "operand0": 0.0}, op0="logical_not")
    assert got.tolist() == [[1, 0, 3, 2]]


def test_power_is_the_power() -> None:
    a = np.abs(normal(8, 8)) + 0.5
    got = simulate("tensor_scalar", ((8, 8), F32), {"data": a, "operand0": 2.5}, op0="power")
    assert got == pytest.approx(a.astype(np.float64) ** 2.5, rel=1e-6)


@pytest.mark.parametrize("op", ["abs_max", "abs_min"])
def test_larger_magnitude_keeps_its_sign_and_ties_give_the_second(op: str) -> None:
    a, b = np.array([[-5, 3, 2]], np.float32), np.array([[3, -5, -2]], np.float32)
    got = simulate(
        "tensor_tensor", ((1, 3), F32), {"data1": a, "data2": b}, op=op, target=Target.TRN3
    )
    assert got.tolist() == ([[-5, -5, -2]] if op == "abs_max" else [[3, 3, -2]])


def test_there_is_one_rounding_at_the_destination() -> None:
    a = np.array([[1 + 2**-8]], np.float32)
    got = simulate(
        "tensor_scalar",
        ((1, 1), BF16),
        {"data": a, "operand0": 1 + 2**-8, "operand1": 2.0**-20},
        op0="multiply",
        op1="add",
    )
    # Rounded after the product, 1 + 2**-7 would be exact and the sum would stay there.
    exact = (1 + 2**-8) ** 2 + 2**-20
    assert float(got[0, 0]) == float(np.float32(exact).astype(BF16.numpy_dtype))


@pytest.mark.parametrize("dtype", [BF16, DType.FLOAT16, DType.FLOAT8_E5M2, DType.INT8, DType.INT32])
def test_inputs_of_any_format_are_computed_in_float32(dtype: DType) -> None:
    a = (8 * normal(16, 40)).astype(dtype.numpy_dtype)
    b = (8 * normal(16, 40, name="y")).astype(dtype.numpy_dtype)
    got = simulate("tensor_tensor", ((16, 40), F32), {"data1": a, "data2": b}, op="multiply")
    assert got.tolist() == (a.astype(np.float32) * b.astype(np.float32)).tolist()


def test_words_are_exact_on_gpsimd_and_wrap() -> None:
    a, b = whole(-(2**31), 2**31, 8, 20), whole(-(2**31), 2**31, 8, 20, name="j")
    for op in ("add", "subtract", "multiply"):
        got = simulate("tensor_tensor", ((8, 20), I32), {"data1": a, "data2": b}, op=op)
        exact = ARITHMETIC[op](a.astype(np.int64), b.astype(np.int64))
        assert got.tolist() == (exact & 0xFFFFFFFF).astype(np.uint32).view(np.int32).tolist()


def test_words_go_through_float32_on_vector() -> None:
    a = np.array([[16777217, 5, 2**31 - 1]], np.int32)
    b = np.array([[0, 6, 2**31 - 1]], np.int32)
    got = simulate(
        "tensor_tensor", ((1, 3), I32), {"data1": a, "data2": b}, op="add", engine=Engine.VECTOR
    )
    assert got.tolist() == [[16777216, 11, 2**31 - 1]]


def test_a_large_integer_in_float32_arithmetic_is_reported() -> None:
    builder = Builder()
    data, dst = builder.load("x", np.array([[16777217]], np.int32)), builder.tile((1, 1), I32)
    builder.add("tensor_scalar", {"dst": dst, "data": data, "operand0": 1.0}, op0="multiply")
    builder.store(dst)
    executable = builder.compile()
    (finding,) = executable.run(builder.arrays).findings
    assert (finding.code, finding.got, finding.where[0].line) == ("NK504", "16777217", 1)
    assert executable.run(builder.arrays, with_checks=False).findings == ()


@pytest.mark.parametrize("op", sorted(BITWISE))
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32])
def test_bitwise_operators_see_bit_patterns(op: str, dtype: type) -> None:
    limits = np.iinfo(dtype)
    a = whole(limits.min, limits.max, 16, 12, dtype=dtype)
    b = whole(limits.min, limits.max, 16, 12, dtype=dtype, name="j")
    kind = DType(np.dtype(dtype).name)
    got = simulate("tensor_tensor", ((16, 12), kind), {"data1": a, "data2": b}, op=op)
    assert got.tolist() == BITWISE[op](a, b).tolist()


def test_shifts_bring_in_zeros() -> None:
    a = np.array([[-1, 1, -(2**31)]], np.int32)
    left = simulate("tensor_scalar", ((1, 3), I32), {"data": a, "operand0": 4}, op0="left_shift")
    assert left.tolist() == [[-16, 16, 0]]
    right = simulate("tensor_scalar", ((1, 3), I32), {"data": a, "operand0": 28}, op0="right_shift")
    assert right.tolist() == [[15, 0, 8]]


def test_bitwise_scalars_chain_and_reverse() -> None:
    a = np.array([[0b1100, 3]], np.uint8)
    got = simulate(
        "tensor_scalar",
        ((1, 2), DType.UINT8),
        {"data": a, "operand0": 0, "operand1": 1},
        op0="invert",
        op1="bitwise_and",
    )
    assert got.tolist() == [[1, 0]]
    got = simulate(
        "tensor_scalar",
        ((1, 2), DType.UINT8),
        {"data": np.array([[1, 2]], np.uint8), "operand0": 8},
        op0="right_shift",
        reverse0=True,
    )
    assert got.tolist() == [[4, 2]]


def test_a_column_of_bits_is_taken_for_each_partition() -> None:
    a, column = whole(0, 256, 8, 5, dtype=np.uint8), whole(0, 256, 8, 1, dtype=np.uint8, name="c")
    got = simulate(
        "tensor_scalar",
        ((8, 5), DType.UINT8),
        {"data": a, "operand0": column},
        op0="bitwise_xor",
    )
    assert got.tolist() == (a ^ column).tolist()


def test_bit_patterns_of_another_size_are_cut_or_filled_with_zeros() -> None:
    a, b = np.array([[0x1FF]], np.int32), np.array([[0xF0]], np.int32)
    got = simulate(
        "tensor_tensor", ((1, 1), DType.UINT8), {"data1": a, "data2": b}, op="bitwise_or"
    )
    assert got.tolist() == [[0xFF]]


def test_scalar_tensor_tensor_is_two_operators() -> None:
    a, b, column = normal(32, 20), normal(32, 20, name="y"), normal(32, 1, name="c")
    got = simulate(
        "scalar_tensor_tensor",
        ((32, 20), F32),
        {"data": a, "operand0": column, "operand1": b},
        op0="subtract",
        op1="subtract",
        reverse0=True,
        reverse1=True,
    )
    assert got.tolist() == (b - (column - a)).tolist()


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_keeps_its_state_in_float32(*, reverse: bool) -> None:
    a, b, first = normal(16, 30), normal(16, 30, name="y"), normal(16, 1, name="c")
    got = simulate(
        "tensor_tensor_scan",
        ((16, 30), BF16),
        {"data0": a, "data1": b, "initial": first},
        op0="multiply",
        op1="subtract",
        reverse1=reverse,
    )
    state, wanted = first[:, 0], np.empty_like(a)
    for i in range(a.shape[1]):
        product = a[:, i] * state
        state = b[:, i] - product if reverse else product - b[:, i]
        wanted[:, i] = state
    assert (
        got.astype(np.float32).tolist()
        == wanted.astype(BF16.numpy_dtype).astype(np.float32).tolist()
    )


def test_operands_of_other_shapes_are_walked_in_row_major_order() -> None:
    a, b = normal(8, 4, 6), normal(8, 24, name="y")
    got = simulate("tensor_tensor", ((8, 2, 12), F32), {"data1": a, "data2": b}, op="add")
    assert got.reshape(8, 24).tolist() == (a.reshape(8, 24) + b).tolist()


@pytest.mark.parametrize("dtype", [F32, BF16, I32])
def test_walks_that_share_no_shape_go_through_a_copy(dtype: DType) -> None:
    """dst in steps of [2, 3] and data in steps of [3, 2], both with gaps."""
    size = dtype.itemsize
    values = whole(-100, 100, 4, 12).astype(dtype.numpy_dtype)
    builder = Builder()
    tile, dst = builder.load("x", values), builder.tile((4, 12), dtype)
    builder.add("memset", {"dst": dst, "value": 0})
    data = builder.view(tile, free=((4 * size, 3), (size, 2)))
    out = builder.view(dst, free=((6 * size, 2), (size, 3)))
    builder.add("tensor_scalar", {"dst": out, "data": data, "operand0": 2.0}, op0="multiply")
    builder.store(dst)
    wanted = np.zeros((4, 2, 6))
    wanted[:, :, :3] = 2 * values.astype(np.float64).reshape(4, 3, 4)[:, :, :2].reshape(4, 2, 3)
    assert builder.outputs()[0].astype(np.float64).tolist() == wanted.reshape(4, 12).tolist()


def test_broadcast_and_reversed_views_are_walked() -> None:
    values = normal(4, 6)
    builder = Builder()
    tile, dst = builder.load("x", values), builder.tile((4, 6))
    backwards = builder.view(tile, free=((-4, 6),), offset=20)
    repeated = builder.view(tile, free=((4, 2), (0, 3)))
    builder.add("tensor_tensor", {"dst": dst, "data1": backwards, "data2": repeated}, op="add")
    builder.store(dst)
    wanted = values[:, ::-1] + np.repeat(values[:, :2], 3, axis=1)
    assert builder.outputs()[0].tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_all_is_read_before_anything_is_written(dtype: DType) -> None:
    """dst is the input shifted by one element, and its scalar operand lies inside of dst."""
    values = (np.round(8 * normal(4, 9)) / 8).astype(dtype.numpy_dtype)
    builder = Builder()
    tile = builder.load("x", values)
    data, dst = builder.columns(tile, 0, 8), builder.columns(tile, 1, 9)
    builder.add(
        "tensor_scalar",
        {"dst": dst, "data": data, "operand0": 2.0, "operand1": 1.0},
        op0="multiply",
        op1="add",
    )
    builder.store(tile)
    wanted = values.astype(np.float32)
    wanted[:, 1:] = 2 * values[:, :8].astype(np.float32) + 1
    assert builder.outputs()[0].astype(np.float32).tolist() == wanted.tolist()


def test_a_scalar_operand_inside_of_the_destination_is_read_first() -> None:
    values = normal(4, 8)
    builder = Builder()
    tile = builder.load("x", values)
    column = builder.columns(tile, 3, 4)
    builder.add(
        "tensor_scalar",
        {"dst": tile, "data": tile, "operand0": column, "operand1": column},
        op0="multiply",
        op1="add",
    )
    builder.store(tile)
    column_values = values[:, 3:4]
    assert builder.outputs()[0].tolist() == (values * column_values + column_values).tolist()


def test_partition_ranges_may_differ() -> None:
    values = normal(64, 5)
    builder = Builder()
    tile, dst = builder.load("x", values), builder.tile((32, 5))
    lower = builder.view(tile, rows=(32, 1, 32))
    builder.add("tensor_scalar", {"dst": dst, "data": lower, "operand0": 1.0}, op0="add")
    builder.store(dst)
    assert builder.outputs()[0].tolist() == (values[32:] + 1).tolist()


def test_psum_tiles_compute_like_sbuf_tiles() -> None:
    values = normal(16, 8)
    builder = Builder()
    tile, middle, dst = (
        builder.load("x", values),
        builder.tile((16, 8), F32, Memory.PSUM),
        builder.tile((16, 8)),
    )
    builder.add("tensor_scalar", {"dst": middle, "data": tile, "operand0": 2.0}, op0="multiply")
    builder.add("tensor_tensor", {"dst": dst, "data1": middle, "data2": tile}, op="add")
    builder.store(dst)
    assert builder.outputs()[0].tolist() == (values * 2 + values).tolist()
