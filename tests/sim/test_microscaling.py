"""Quantising to MX data, and products of packed operands with their scales."""

import ml_dtypes
import numpy as np
import pytest

from nki_agent.base.errors import KernelError
from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.program.validate import check_program
from tests.sim.build import Array, Builder, View

F32, BF16, U8, E8M0 = DType.FLOAT32, DType.BFLOAT16, DType.UINT8, DType.FLOAT8_E8M0FNU
E5M2, E4M3 = DType.FLOAT8_E5M2_X4, DType.FLOAT8_E4M3FN_X4
FP4 = DType.FLOAT4_E2M1FN_X4
FORMATS = {
    E5M2: ml_dtypes.float8_e5m2,
    E4M3: ml_dtypes.float8_e4m3fn,
    FP4: ml_dtypes.float4_e2m1fn,
}
LARGEST_EXPONENT = {E5M2: 15, E4M3: 8}


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(ml_dtypes.bfloat16)


def scale_rows(partitions: int) -> list[int]:
    return [32 * (group // 4) + group % 4 for group in range(partitions // 8)]


def quantise(x: Array, dtype: DType, scale: DType = U8) -> tuple[Array, Array]:
    """Packed data, and the whole scale tile."""
    builder = Builder(Target.TRN3)
    partitions, free = x.shape
    dst = builder.tile((partitions, free // 4), dtype)
    scales = builder.tile((partitions, free // 4), scale)
    builder.add("quantize_mx", {"dst": dst, "src": builder.load("x", x), "dst_scale": scales})
    builder.store(dst)
    builder.store(scales)
    packed, codes = builder.outputs()
    return packed, codes


def reference_quantise(x: Array, dtype: DType) -> tuple[Array, Array]:
    """Group by group in float64."""
    partitions, free = x.shape
    groups = x.astype(np.float64).reshape(partitions // 8, 8, free // 4, 4)
    amax = np.abs(groups).max((1, 3))
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(amax)) - (LARGEST_EXPONENT[dtype] - 1)
    exponent = np.clip(exponent, -127, 127)
    scaled = groups / 2.0 ** exponent[:, None, :, None]
    codes = scaled.astype(np.float32).astype(FORMATS[dtype]).view(np.uint8)
    return codes.reshape(partitions, free).view(np.uint32), (exponent + 127).astype(np.uint8)


@pytest.mark.parametrize("dtype", [E5M2, E4M3])
@pytest.mark.parametrize("shape", [(32, 4), (64, 12), (128, 64)])
@pytest.mark.parametrize("scale", [U8, E8M0])
def test_quantising_takes_a_scale_for_each_group(
    dtype: DType, shape: tuple[int, int], scale: DType
) -> None:
    x = normal(*shape) * np.float32(2.0 ** rng_for(0, "e").integers(-60, 60, shape))
    x = x.astype(ml_dtypes.bfloat16)
    packed, scales = quantise(x, dtype, scale)
    wanted, codes = reference_quantise(x, dtype)
    assert packed.tolist() == wanted.tolist()
    assert scales.view(np.uint8)[scale_rows(shape[0])].tolist() == codes.tolist()


def test_rows_of_the_scale_tile_between_scales_are_left_alone() -> None:
    _, scales = quantise(normal(64, 8), E5M2)
    assert set(np.delete(scales, scale_rows(64), 0).ravel().tolist()) == {0x7F}


def test_a_group_of_zeros_has_the_least_scale() -> None:
    packed, scales = quantise(np.zeros((32, 4), ml_dtypes.bfloat16), E4M3)
    assert not packed.any()
    assert scales[:4].tolist() == [[0]] * 4


def test_the_least_magnitudes_keep_the_least_scale() -> None:
    x = np.full((32, 4), 2.0**-130, np.float32).astype(ml_dtypes.bfloat16)
    packed, scales = quantise(x, E5M2)
    assert scales[:4].tolist() == [[0]] * 4
    assert packed.view(ml_dtypes.float8_e5m2).astype(np.float32).max() == 2.0**-3


def test_infinity_saturates_and_nan_stays() -> None:
    x = np.ones((32, 8), np.float16)
    x[0, 0], x[0, 4] = -np.inf, np.nan
    packed, scales = quantise(x, E4M3)
    values = packed.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert values[0, 0] == -448
    assert np.isnan(values[0, 4])
    assert scales[0].tolist() == [255 - 7] * 2


def pack(values: Array, dtype: DType) -> Array:
    codes = values.astype(FORMATS[dtype]).view(np.uint8)
    if dtype is not FP4:
        return codes.view(np.uint32)
    nibbles = codes.reshape(*codes.shape[:-1], -1, 4).astype(np.uint16)
    packed: Array = np.bitwise_or.reduce(nibbles << (4 * np.arange(4, dtype=np.uint16)), -1)
    return packed


def random_operand(partitions: int, free: int, dtype: DType, name: str) -> tuple[Array, Array]:
    """(partitions, free, 4) values that the format holds, and a scale code for each group."""
    rng = rng_for(1, name)
    values = rng.integers(-3, 4, (partitions, free * 4)).astype(np.float32)
    codes = rng.integers(124, 130, (partitions // 8, free)).astype(np.uint8)
    return pack(values, dtype), codes


def dequantise(packed: Array, dtype: DType, codes: Array) -> Array:
    """(4 * partitions, free) in float64."""
    partitions, free = packed.shape
    if dtype is FP4:
        nibbles = (packed[..., None] >> (4 * np.arange(4, dtype=np.uint16))) & 0xF
        values = nibbles.astype(np.uint8).view(ml_dtypes.float4_e2m1fn)
    else:
        values = packed.view(FORMATS[dtype]).reshape(partitions, free, 4)
    scale = 2.0 ** (np.repeat(codes, 8, 0).astype(np.float64) - 127)
    whole: Array = (values.astype(np.float64) * scale[..., None]).transpose(0, 2, 1)
    return whole.reshape(-1, free)


def load_operand(
    builder: Builder, name: str, packed: Array, dtype: DType, codes: Array, scale: DType
) -> tuple[View, View]:
    data = builder.load(name, packed, dtype)
    rows = scale_rows(packed.shape[0])
    tile = np.full((max(rows) + 1, packed.shape[1]), 255, np.uint8)
    tile[rows] = codes
    return data, builder.load(f"{name}_scale", tile.view(scale.numpy_dtype), scale)


def multiply(
    builder: Builder, dst: View, stationary: tuple[View, View], moving: tuple[View, View]
) -> None:
    roles = ("stationary", "stationary_scale", "moving", "moving_scale")
    operands = dict(zip(roles, (*stationary, *moving), strict=True))
    builder.add("nc_matmul_mx", {"dst": dst, **operands})


@pytest.mark.parametrize(
    ("first", "second"), [(E5M2, E5M2), (E4M3, E4M3), (FP4, FP4), (FP4, E5M2), (E4M3, E5M2)]
)
@pytest.mark.parametrize("sizes", [(32, 2, 1), (64, 6, 5), (128, 128, 512)])
@pytest.mark.parametrize("scale", [U8, E8M0])
def test_product_dequantises_and_adds_over_partitions_and_codes(
    first: DType, second: DType, sizes: tuple[int, int, int], scale: DType
) -> None:
    partitions, rows, columns = sizes
    a, a_codes = random_operand(partitions, rows, first, "a")
    b, b_codes = random_operand(partitions, columns, second, "b")
    builder = Builder(Target.TRN3)
    stationary = load_operand(builder, "a", a, first, a_codes, scale)
    moving = load_operand(builder, "b", b, second, b_codes, scale)
    psum = builder.tile((rows, columns), F32, Memory.PSUM)
    multiply(builder, psum, stationary, moving)
    builder.store(psum)
    wanted = dequantise(a, first, a_codes).T @ dequantise(b, second, b_codes)
    # Small integers by powers of two: float32 holds every sum.
    assert builder.outputs()[0].tolist() == wanted.astype(np.float32).tolist()


def test_a_second_product_adds_and_a_bfloat16_destination_rounds_each_time() -> None:
    codes = np.full((4, 2), 127, np.uint8)
    packed = pack(np.ones((32, 8), np.float32), E4M3)
    builder = Builder(Target.TRN3)
    operand = load_operand(builder, "a", packed, E4M3, codes, U8)
    psum = builder.tile((2, 2), BF16, Memory.PSUM)
    for _ in range(3):
        multiply(builder, psum, operand, operand)
    builder.store(psum)
    # 128 + 128 + 128 = 384 has eight bits and a factor of two.
    assert builder.outputs()[0].astype(np.float32).tolist() == [[384.0] * 2] * 2


def test_the_scale_255_is_nan() -> None:
    codes = np.full((4, 2), 127, np.uint8)
    codes[1, 0] = 255
    packed = pack(np.ones((32, 8), np.float32), E5M2)
    builder = Builder(Target.TRN3)
    operand = load_operand(builder, "a", packed, E5M2, codes, U8)
    psum = builder.tile((2, 2), F32, Memory.PSUM)
    multiply(builder, psum, operand, operand)
    builder.store(psum)
    assert np.isnan(builder.outputs()[0]).tolist() == [[True, True], [True, False]]


def test_scales_of_two_tensors_share_a_tile() -> None:
    x, y = normal(128, 8, name="x"), normal(128, 16, name="y")
    builder = Builder(Target.TRN3)
    shared = builder.tile((128, 4), U8)
    first = builder.view(shared, free=((1, 2),))
    second = builder.view(shared, rows=(4, 1, 124))
    views = []
    for name, array, scales in (("x", x, first), ("y", y, second)):
        dst = builder.tile((128, array.shape[1] // 4), E4M3)
        src = builder.load(name, array)
        builder.add("quantize_mx", {"dst": dst, "src": src, "dst_scale": scales})
        views.append((dst, scales))
    psum = builder.tile((2, 4), F32, Memory.PSUM)
    multiply(builder, psum, *views)
    builder.store(psum)
    parts = [
        dequantise(packed, E4M3, codes)
        for packed, codes in (reference_quantise(array, E4M3) for array in (x, y))
    ]
    assert builder.outputs()[0] == pytest.approx(parts[0].T @ parts[1], rel=1e-5, abs=1e-5)


def find_codes(builder: Builder) -> list[str]:
    return [finding.code for finding in check_program(builder.program(), load_chip(Target.TRN3))]


@pytest.mark.parametrize(
    ("rows", "code"),
    [((0, 1, 64), None), ((4, 1, 40), None), ((2, 1, 40), "NK211"), ((0, 1, 35), "NK304")],
)
def test_scale_views_start_at_multiples_of_4_and_reach_every_quadrant(
    rows: tuple[int, int, int], code: str | None
) -> None:
    builder = Builder(Target.TRN3)
    src = builder.load("x", normal(64, 8))
    scales = builder.view(builder.tile((128, 2), U8), rows=rows)
    builder.add(
        "quantize_mx", {"dst": builder.tile((64, 2), E4M3), "src": src, "dst_scale": scales}
    )
    assert find_codes(builder) == ([] if code is None else [code])


def test_scales_lie_in_the_quadrant_of_their_data() -> None:
    builder = Builder(Target.TRN3)
    tile = builder.tile((128, 8), BF16)
    src = builder.view(tile, rows=(64, 1, 32))
    dst = builder.view(builder.tile((128, 2), E4M3), rows=(64, 1, 32))
    scales = builder.tile((32, 2), U8)
    builder.add("quantize_mx", {"dst": dst, "src": src, "dst_scale": scales})
    assert "NK211" in find_codes(builder)


# Packed elements as data.


@pytest.mark.parametrize("dtype", [E5M2, E4M3, FP4])
def test_packed_elements_move_bit_for_bit(dtype: DType) -> None:
    limits = np.iinfo(dtype.numpy_dtype)
    x = rng_for(0, "bits").integers(0, limits.max, (4, 6), endpoint=True).astype(dtype.numpy_dtype)
    builder = Builder(Target.TRN3)
    copy = builder.tile((4, 6), dtype)
    builder.add("tensor_copy", {"dst": copy, "src": builder.load("x", x, dtype)})
    turned = builder.tile((6, 4), dtype)
    builder.add("nc_transpose", {"dst": turned, "data": copy})
    builder.store(turned)
    assert builder.outputs()[0].tolist() == x.T.tolist()


@pytest.mark.parametrize("dtype", [E5M2, FP4])
def test_packed_elements_are_seen_in_bytes(dtype: DType) -> None:
    size = dtype.itemsize
    x = np.arange(8 * size, dtype=np.uint8).reshape(2, 4 * size)
    builder = Builder(Target.TRN3)
    tile = builder.load("x", x)
    seen = builder.view(tile, free=((size, 4),), dtype=dtype)
    copy = builder.tile((2, 4), dtype)
    builder.add("tensor_copy", {"dst": copy, "src": seen})
    builder.store(copy)
    assert builder.outputs()[0].tolist() == x.view(dtype.numpy_dtype).tolist()


@pytest.mark.parametrize("value", [0, 0.0, 1, 2.5])
def test_packed_elements_are_filled_with_zero_only(value: float) -> None:
    builder = Builder(Target.TRN3)
    tile = builder.tile((2, 4), FP4)
    builder.add("memset", {"dst": tile, "value": value})
    builder.store(tile)
    if value:
        with pytest.raises(KernelError, match="NK308"):
            builder.compile()
    else:
        assert not builder.outputs()[0].any()


def test_packed_elements_are_no_numbers() -> None:
    builder = Builder(Target.TRN3)
    tile = builder.load("x", np.zeros((2, 4), np.uint32), E5M2)
    out = builder.tile((2, 4))
    builder.add("tensor_copy", {"dst": out, "src": tile})
    with pytest.raises(KernelError, match="float8_e5m2_x4"):
        builder.compile()
