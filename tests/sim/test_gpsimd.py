"""Affine patterns and reductions over partitions."""

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from tests.sim.build import Array, Builder, simulate

F32, BF16, I32 = DType.FLOAT32, DType.BFLOAT16, DType.INT32
PATTERN = ((100, 3), (-7, 4))


def affine(partitions: int, offset: int, multiplier: int) -> Array:
    w, x = np.meshgrid(100 * np.arange(3), -7 * np.arange(4), indexing="ij")
    row = (w + x).reshape(1, -1)
    return offset + multiplier * np.arange(partitions)[:, None] + row


@pytest.mark.parametrize("dtype", [F32, BF16, I32, DType.INT8, DType.UINT16])
def test_iota_writes_the_pattern(dtype: DType) -> None:
    got = simulate(
        "iota", ((5, 12), dtype), {}, pattern=PATTERN, offset=-20, channel_multiplier=1000
    )
    exact = affine(5, -20, 1000)
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy_dtype)
        exact = exact.clip(limits.min, limits.max)
    assert (
        got.tolist()
        == exact.astype(np.float32 if dtype is BF16 else dtype.numpy_dtype)
        .astype(dtype.numpy_dtype)
        .tolist()
    )


def test_iota_wraps_at_32_bits() -> None:
    got = simulate(
        "iota", ((2, 1), I32), {}, pattern=((1, 1),), offset=2**31 - 1, channel_multiplier=1
    )
    assert got.tolist() == [[2**31 - 1], [-(2**31)]]


@pytest.mark.parametrize(
    "op", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
)
@pytest.mark.parametrize("dtype", [F32, BF16, I32])
def test_affine_select_compares_the_pattern_with_zero(op: str, dtype: DType) -> None:
    values = (100 * rng_for(0, op).standard_normal((8, 12))).astype(dtype.numpy_dtype)
    got = simulate(
        "affine_select",
        ((8, 12), dtype),
        {"on_true_tile": values, "on_false_value": -9.0},
        pattern=((-1, 12),),
        channel_multiplier=1,
        offset=2,
        cmp_op=op,
    )
    position = 2 + np.arange(8)[:, None] - np.arange(12)
    wanted = np.where(getattr(np, op)(position, 0), values, np.array(-9).astype(values.dtype))
    assert got.tolist() == wanted.tolist()


def test_affine_select_casts_through_float32() -> None:
    values = np.array([[16777217, 5]], np.int32)
    got = simulate(
        "affine_select",
        ((1, 2), F32),
        {"on_true_tile": values, "on_false_value": 0.5},
        pattern=((1, 2),),
        channel_multiplier=0,
        cmp_op="equal",
    )
    assert got.tolist() == [[16777216, 0.5]]


def partition_reduce(values: Array, op: str, dtype: DType) -> list[float]:
    got = simulate(
        "tensor_partition_reduce", ((1, values.shape[1]), dtype), {"data": values}, op=op
    )
    return [float(x) for x in got[0]]


@pytest.mark.parametrize("partitions", [1, 2, 128])
@pytest.mark.parametrize("free", [1, 20])
def test_partitions_are_added_from_the_first_to_the_last(partitions: int, free: int) -> None:
    values = rng_for(0, "p").random((partitions, free), np.float32)
    total = values[0].copy()
    for row in values[1:]:
        total = total + row
    assert partition_reduce(values, "add", F32) == total.tolist()
    assert partition_reduce(values, "average", F32) == (total / np.float32(partitions)).tolist()
    assert partition_reduce(values, "maximum", F32) == values.max(0).tolist()


def test_partitions_are_reduced_as_bit_patterns() -> None:
    values = rng_for(0, "bits").integers(0, 256, (9, 5)).astype(np.uint8)
    for op in ("bitwise_and", "bitwise_or"):
        wanted = getattr(np, op).reduce(values, axis=0)
        assert partition_reduce(values, op, DType.UINT8) == wanted.tolist()


def test_bit_patterns_are_reduced_into_a_wider_integer() -> None:
    values = np.array([[0x0F, 0x80], [0xF0, 0x01]], np.uint8)
    assert partition_reduce(values, "bitwise_or", I32) == [255, 129]


def test_free_axes_with_gaps_are_reduced_over_partitions() -> None:
    values = rng_for(0, "gaps").random((4, 12), np.float32)
    builder = Builder()
    tile, dst = builder.load("x", values), builder.tile((1, 8))
    data = builder.view(tile, free=((24, 2), (4, 4)))
    builder.add("tensor_partition_reduce", {"dst": dst, "data": data}, op="maximum")
    builder.store(dst)
    wanted = values.reshape(4, 2, 6)[:, :, :4].reshape(4, 8).max(0)
    assert builder.outputs()[0].tolist() == [wanted.tolist()]
