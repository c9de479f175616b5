"""Matrix products, what they do to PSUM, and transposes."""

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from tests.sim.build import Array, Builder, View, simulate

F32, BF16 = DType.FLOAT32, DType.BFLOAT16


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dtype", [F32, BF16, DType.FLOAT16, DType.FLOAT8_E4M3, DType.FLOAT8_E5M2])
@pytest.mark.parametrize("sizes", [(128, 128, 512), (5, 3, 7), (1, 1, 1), (64, 1, 30), (1, 9, 4)])
def test_matmul_is_the_product_in_float32(dtype: DType, sizes: tuple[int, int, int]) -> None:
    k, m, n = sizes
    a = normal(k, m).astype(dtype.numpy_dtype)
    b = normal(k, n, name="y").astype(dtype.numpy_dtype)
    got = simulate("nc_matmul", ((m, n), F32), {"stationary": a, "moving": b})
    wanted = a.astype(np.float64).T @ b.astype(np.float64)
    assert got == pytest.approx(wanted, rel=1e-5, abs=1e-4)


def test_tfloat32_operands_carry_ten_bits() -> None:
    a = np.array([[1 + 2**-12]], np.float32)
    builder = Builder()
    psum = builder.tile((1, 1), F32, Memory.PSUM)
    operand = builder.load("x", a, DType.TFLOAT32)
    builder.add("nc_matmul", {"dst": psum, "stationary": operand, "moving": operand})
    builder.store(psum)
    assert builder.outputs()[0].tolist() == [[1.0]]


class Product:
    """A product of ones, 4 deep, into views of one PSUM tile."""

    def __init__(self, columns: int = 8) -> None:
        self.builder = Builder()
        self.psum = self.builder.tile((2, columns), F32, Memory.PSUM)
        self.stationary = self.builder.load("a", np.ones((4, 2), np.float32))

    def add(self, start: int, stop: int, accumulate: bool | None = None) -> None:
        ones = np.ones((4, stop - start), np.float32)
        moving = self.builder.load(f"b{len(self.builder.body)}", ones)
        dst = self.builder.columns(self.psum, start, stop)
        self.builder.add(
            "nc_matmul",
            {"dst": dst, "stationary": self.stationary, "moving": moving},
            accumulate=accumulate,
        )

    def row(self) -> list[float]:
        self.builder.store(self.psum)
        return [float(x) for x in self.builder.outputs()[0][0]]


def test_the_first_product_overwrites_and_later_ones_add() -> None:
    product = Product()
    for _ in range(3):
        product.add(0, 8)
    assert product.row() == [12.0] * 8


def test_what_is_first_is_decided_for_each_element() -> None:
    product = Product()
    product.add(0, 6)
    product.add(2, 8)
    product.add(4, 8)
    assert product.row() == [4, 4, 8, 8, 12, 12, 8, 8]


def test_a_whole_tile_that_meets_a_started_part_adds_there() -> None:
    product = Product()
    product.add(2, 4)
    product.add(0, 8)
    product.add(0, 8)
    assert product.row() == [8, 8, 12, 12, 8, 8, 8, 8]


def test_false_overwrites_and_true_adds() -> None:
    product = Product()
    product.add(0, 8)
    product.add(0, 8, accumulate=False)
    product.add(0, 4, accumulate=True)
    product.add(4, 8)
    assert product.row() == [8.0] * 8


def test_true_on_a_new_tile_gives_no_clean_number() -> None:
    product = Product()
    product.add(0, 8, accumulate=True)
    assert bool(np.isnan(product.row()).all())


def test_a_fill_does_not_start_an_accumulation() -> None:
    product = Product()
    product.builder.add("memset", {"dst": product.psum, "value": 100.0})
    product.add(0, 4)
    assert product.row() == [4.0] * 4 + [100.0] * 4


def test_a_new_tile_in_an_old_buffer_starts_anew() -> None:
    builder = Builder()
    a = builder.load("a", np.ones((4, 2), np.float32))
    b = builder.load("b", np.ones((4, 8), np.float32))
    for _ in range(3):
        psum = builder.tile((2, 8), F32, Memory.PSUM)
        for _ in range(2):
            builder.add("nc_matmul", {"dst": psum, "stationary": a, "moving": b})
        builder.store(psum)
    assert [out.tolist() for out in builder.outputs()] == [[[8.0] * 8] * 2] * 3


def test_bfloat16_results_are_rounded_at_each_product() -> None:
    builder = Builder(Target.TRN3)
    psum = builder.tile((1, 1), BF16, Memory.PSUM)
    one, small = (
        builder.load(f"x{i}", np.array([[value]], BF16.numpy_dtype))
        for i, value in enumerate((1.0, 2.0**-9))
    )
    builder.add("nc_matmul", {"dst": psum, "stationary": one, "moving": one})
    for _ in range(4):
        builder.add("nc_matmul", {"dst": psum, "stationary": one, "moving": small})
    builder.store(psum)
    assert float(builder.outputs()[0][0, 0]) == 1.0


def test_operands_with_gaps_are_multiplied() -> None:
    values = normal(16, 24)
    builder = Builder()
    tile, psum = builder.load("x", values), builder.tile((6, 8), F32, Memory.PSUM)
    stationary = builder.view(tile, free=((8, 6),), offset=4)
    moving = builder.view(tile, free=((48, 2), (4, 4)))
    builder.add("nc_matmul", {"dst": psum, "stationary": stationary, "moving": moving})
    builder.store(psum)
    right = values.reshape(16, 2, 12)[:, :, :4].reshape(16, 8)
    wanted = values[:, 1:13:2].astype(np.float64).T @ right.astype(np.float64)
    assert builder.outputs()[0] == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("dtype", [F32, BF16, DType.INT16, DType.UINT8])
def test_transpose_moves_values(dtype: DType) -> None:
    values = (20 * normal(5, 32)).astype(dtype.numpy_dtype)
    got = simulate("nc_transpose", ((32, 5), dtype), {"data": values})
    assert got.tobytes() == np.ascontiguousarray(values.T).tobytes()


def test_transpose_flattens_free_axes() -> None:
    values = normal(5, 12)
    builder = Builder()
    tile, dst = builder.load("x", values), builder.tile((8, 5))
    data = builder.view(tile, free=((24, 2), (4, 4)))
    builder.add("nc_transpose", {"dst": dst, "data": data})
    builder.store(dst)
    wanted = values.reshape(5, 2, 6)[:, :, :4].reshape(5, 8).T
    assert builder.outputs()[0].tolist() == wanted.tolist()


def transpose_with_infinity(target: Target) -> Array:
    values = normal(40, 40)
    values[3, 5] = np.inf
    builder = Builder(target)
    psum = builder.tile((40, 40), F32, Memory.PSUM)
    builder.add("nc_transpose", {"dst": psum, "data": builder.load("x", values)})
    builder.store(psum)
    return builder.outputs()[0]


def test_infinity_spreads_in_a_transpose_on_the_oldest_chip_only() -> None:
    clean = transpose_with_infinity(Target.TRN2)
    assert np.isinf(clean).sum() == 1
    assert not np.isnan(clean).any()
    spread = transpose_with_infinity(Target.TRN1)
    assert spread[5, 3] == np.inf
    assert bool(np.isnan(np.delete(spread[5], 3)).all())
    assert not np.isnan(np.delete(spread, 5, axis=0)).any()


def by_identity(builder: Builder, data: View, size: int) -> View:
    dtype = data.dtype
    psum = builder.tile((data.pattern.free_elems, size), dtype, Memory.PSUM)
    identity = builder.load("eye", np.eye(size, dtype=np.float32).astype(dtype.numpy_dtype))
    builder.add(
        "nc_matmul",
        {"dst": psum, "stationary": data, "moving": identity},
        is_transpose=True,
    )
    return psum


def test_transpose_mode_passes_every_value_through() -> None:
    values = normal(6, 4).astype(BF16.numpy_dtype)
    values[1, 2] = np.inf
    values[2, 0] = np.nan
    builder = Builder()
    builder.store(by_identity(builder, builder.load("x", values), 6))
    got = builder.outputs()[0]
    assert got.tobytes() == np.ascontiguousarray(values.T).tobytes()


@pytest.mark.parametrize(
    ("first", "second", "target"),
    [
        (DType.FLOAT8_E4M3, DType.FLOAT8_E4M3, Target.TRN2),
        (DType.FLOAT8_E4M3, DType.FLOAT8_E5M2, Target.TRN2),
        (DType.FLOAT8_E4M3FN, DType.FLOAT8_E4M3FN, Target.TRN3),
        (DType.FLOAT8_E5M2, DType.FLOAT8_E4M3FN, Target.TRN3),
    ],
)
@pytest.mark.parametrize("sizes", [(128, 128, 512), (5, 3, 4), (1, 1, 1)])
def test_double_row_contracts_over_partitions_and_both_sets(
    first: DType, second: DType, target: Target, sizes: tuple[int, int, int]
) -> None:
    k, m, n = sizes
    a = (4 * normal(k, 2, m)).astype(first.numpy_dtype)
    b = (4 * normal(k, 2, n, name="y")).astype(second.numpy_dtype)
    got = simulate(
        "nc_matmul",
        ((m, n), F32),
        {"stationary": a, "moving": b},
        target=target,
        perf_mode="double_row",
    )
    wanted = np.einsum("ksm,ksn->mn", a.astype(np.float64), b.astype(np.float64))
    assert got == pytest.approx(wanted, rel=1e-5, abs=1e-3)


def test_double_row_takes_views_of_wider_tiles() -> None:
    a = (4 * normal(6, 2, 8)).astype(DType.FLOAT8_E5M2.numpy_dtype)
    builder = Builder()
    tile = builder.load("a", a)
    part = builder.view(tile, rows=(0, 1, 4), free=((8, 2), (1, 3)))
    psum = builder.tile((3, 3), F32, Memory.PSUM)
    builder.add(
        "nc_matmul", {"dst": psum, "stationary": part, "moving": part}, perf_mode="double_row"
    )
    builder.store(psum)
    x = a[:4, :, :3].astype(np.float64)
    assert builder.outputs()[0] == pytest.approx(np.einsum("ksm,ksn->mn", x, x), rel=1e-5)


@pytest.mark.parametrize(
    ("position", "size"), [((0, 0), (64, 128)), ((64, 0), (64, 128)), ((96, 0), (32, 128))]
)
def test_row_tiling_does_not_change_the_product(
    position: tuple[int, int], size: tuple[int, int]
) -> None:
    a, b = normal(32, 8), normal(32, 12, name="y")
    operands: dict[str, Array | float | int | None] = {"stationary": a, "moving": b}
    plain = simulate("nc_matmul", ((8, 12), F32), operands)
    got = simulate("nc_matmul", ((8, 12), F32), operands, tile_position=position, tile_size=size)
    assert got.tolist() == plain.tolist()


def test_bfloat16_sums_are_widened_added_to_and_rounded_each_time() -> None:
    steps = [np.full((1, 1), v, np.float32) for v in (256.0, 1.0, 1.0, 3.0)]
    builder = Builder(Target.TRN3)
    psum = builder.tile((1, 1), BF16, Memory.PSUM)
    one = builder.load("one", np.ones((1, 1), np.float32))
    for number, step in enumerate(steps):
        moving = builder.load(f"s{number}", step)
        builder.add("nc_matmul", {"dst": psum, "stationary": one, "moving": moving})
    builder.store(psum)
    # 256 + 1 is a tie and goes to 256, twice; 259 is a tie and goes to 260.
    assert float(builder.outputs()[0][0, 0]) == 260.0


@pytest.mark.parametrize("dtype", [DType.FLOAT8_E4M3, DType.FLOAT8_E5M2])
def test_8_bit_floats_are_transposed_bit_for_bit(dtype: DType) -> None:
    codes = np.arange(120, dtype=np.uint8).reshape(6, 20)
    values = codes.view(dtype.numpy_dtype)
    builder = Builder()
    psum = builder.tile((20, 6), dtype, Memory.PSUM)
    builder.add("nc_transpose", {"dst": psum, "data": builder.load("x", values)})
    builder.store(psum)
    assert builder.outputs()[0].view(np.uint8).tolist() == codes.T.tolist()


@pytest.mark.parametrize("role", ["stationary", "moving"])
@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("odd_one", [0.0, 0.5, 2.0, -1.0])
def test_operand_that_is_said_to_hold_ones_and_zeros_must(
    role: str, dtype: DType, odd_one: float
) -> None:
    ones = (normal(6, 4) > 0).astype(np.float32)
    ones[2, 1] = odd_one
    other = normal(6, 4, name="y").astype(dtype.numpy_dtype)
    others = {"stationary": "moving", "moving": "stationary"}
    builder = Builder()
    psum = builder.tile((4, 4), F32, Memory.PSUM)
    operands = {
        "dst": psum,
        role: builder.load("ones", ones.astype(dtype.numpy_dtype), dtype),
        others[role]: builder.load("other", other, dtype),
    }
    builder.add(
        "nc_matmul",
        operands,
        is_stationary_onezero=role == "stationary",
        is_moving_onezero=role == "moving",
    )
    builder.store(psum)
    found = builder.run()
    (got,) = found.outputs
    is_lost = odd_one != 0 and dtype is F32
    assert [f.code for f in found.findings] == (["NK506"] if is_lost else [])
    a, b = (ones, other) if role == "stationary" else (other, ones)
    wanted = a.astype(np.float64).T @ b.astype(np.float64)
    assert got == pytest.approx(np.full((4, 4), np.nan) if is_lost else wanted, nan_ok=True)
