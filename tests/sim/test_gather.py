"""Shuffles, gathers, and searches that give positions."""

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.isa.signature import AttributeValue
from tests.sim.build import Array, Builder, Operands, View, simulate

F32, BF16, I32, U32 = DType.FLOAT32, DType.BFLOAT16, DType.INT32, DType.UINT32
FORMATS = [F32, BF16, I32, DType.INT8, DType.FLOAT8_E4M3]


def whole(*shape: int, high: int = 100) -> Array:
    return rng_for(0, "gather", high, *shape).integers(0, high, shape)


def values(dtype: DType, *shape: int) -> Array:
    return whole(*shape).astype(dtype.numpy_dtype)


def indices(dtype: type, high: int, *shape: int) -> Array:
    return whole(*shape, high=high).astype(dtype)


# Shuffle.


def shuffled(dst: Array, src: Array, mask: list[int]) -> Array:
    """What the documentation says, an entry at a time."""
    out = dst.copy()
    for row in range(len(dst)):
        entry = mask[row % 32]
        if entry != 255:
            out[row] = src[row // 32 * 32 + entry]
    return out


def shuffle(dst: Array, src: Array, mask: list[int], memory: Memory = Memory.SBUF) -> Array:
    builder = Builder()
    source, target = builder.load("src", src), builder.load("dst", dst)
    if memory is Memory.PSUM:
        tile = builder.tile(dst.shape, target.dtype, Memory.PSUM)
        builder.add("tensor_copy", {"dst": tile, "src": target})
        target = tile
    builder.add("nc_stream_shuffle", {"dst": target, "src": source}, shuffle_mask=tuple(mask))
    builder.store(target)
    return builder.outputs()[0]


MASK = [*range(31, 7, -1), 255, 255, 0, 0, 5, 255, 31, 30]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("partitions", [32, 64, 128])
def test_shuffle_moves_partitions_within_their_quadrant(dtype: DType, partitions: int) -> None:
    dst, src = values(dtype, partitions, 6), values(dtype, partitions, 6)[::-1].copy()
    assert shuffle(dst, src, MASK).tolist() == shuffled(dst, src, MASK).tolist()


def test_shuffle_writes_to_psum() -> None:
    dst, src = values(F32, 64, 6), values(F32, 64, 6)[::-1].copy()
    assert shuffle(dst, src, MASK, Memory.PSUM).tolist() == shuffled(dst, src, MASK).tolist()


def test_shuffle_in_place_reads_before_it_writes() -> None:
    data = values(F32, 64, 6)
    builder = Builder()
    tile = builder.load("x", data)
    mask = (*range(1, 32), 0)
    builder.add("nc_stream_shuffle", {"dst": tile, "src": tile}, shuffle_mask=mask)
    builder.store(tile)
    assert builder.outputs()[0].tolist() == shuffled(data, data, list(mask)).tolist()


def test_shuffle_that_keeps_everything_does_nothing() -> None:
    dst, src = values(F32, 32, 6), values(F32, 32, 6)[::-1].copy()
    assert shuffle(dst, src, [255] * 32).tolist() == dst.tolist()


def test_shuffle_of_fewer_partitions_than_a_quadrant() -> None:
    dst, src = values(BF16, 8, 6), values(BF16, 20, 6)
    mask = [19, 18, 255, 0, 1, 2, 3, 4] + [31] * 24
    assert shuffle(dst, src, mask).tolist() == shuffled(dst, src, mask).tolist()


def test_shuffle_moves_a_view_into_a_view() -> None:
    data = values(F32, 32, 8)
    builder = Builder()
    tile, out = builder.load("x", data), builder.load("y", np.zeros((32, 8), np.float32))
    operands: Operands = {
        "dst": builder.view(out, free=((8, 4),)),
        "src": builder.columns(tile, 4, 8),
    }
    builder.add("nc_stream_shuffle", operands, shuffle_mask=tuple(range(31, -1, -1)))
    builder.store(out)
    got = builder.outputs()[0]
    assert got[:, ::2].tolist() == data[::-1, 4:].tolist()
    assert not got[:, 1::2].any()


# Gathers.


@pytest.mark.parametrize("dtype", FORMATS)
def test_n_gather_takes_elements_of_the_same_partition(dtype: DType) -> None:
    data, where = values(dtype, 128, 50), indices(np.uint32, 50, 128, 70)
    got = simulate("nc_n_gather", ((128, 70), dtype), {"data": data, "indices": where})
    wanted = np.take_along_axis(data, where.astype(np.int64), axis=1)
    assert got.tolist() == wanted.tolist()


def test_n_gather_flattens_free_axes() -> None:
    data, where = values(F32, 4, 3, 5), indices(np.uint32, 15, 4, 2, 6)
    got = simulate("nc_n_gather", ((4, 2, 6), F32), {"data": data, "indices": where})
    flat = np.take_along_axis(data.reshape(4, -1), where.reshape(4, -1).astype(np.int64), 1)
    assert got.tolist() == flat.reshape(4, 2, 6).tolist()


@pytest.mark.parametrize("split", [1, 2, 4])
def test_n_gather_does_not_depend_on_the_tiling(split: int) -> None:
    data, where = values(F32, 128, 32), indices(np.uint32, 32, 128, 64)
    builder = Builder()
    source, index = builder.load("x", data), builder.load("i", where)
    dst = builder.tile((128, 64))
    size = 64 // split
    for start in range(0, 64, size):
        for rows in ((0, 1, 64), (64, 1, 64)):
            parts = [builder.columns(view, start, start + size) for view in (dst, index)]
            operands: Operands = {
                "dst": builder.view(parts[0], rows=rows),
                "data": builder.view(source, rows=rows),
                "indices": builder.view(parts[1], rows=rows),
            }
            builder.add("nc_n_gather", operands)
    builder.store(dst)
    wanted = np.take_along_axis(data, where.astype(np.int64), axis=1)
    assert builder.outputs()[0].tolist() == wanted.tolist()


def gathered(data: Array, index: Array, *, each: int, count: int) -> Array:
    """What the documentation says, a core at a time."""
    out = np.empty((len(data), count * each), data.dtype)
    for core in range(0, len(data), 16):
        flat = index[core : core + 16].flatten(order="F")[:count]
        for number, start in enumerate(flat.tolist()):
            part = data[core : core + 16, start : start + each]
            out[core : core + 16, number * each : (number + 1) * each] = part
    return out


@pytest.mark.parametrize("dtype", [F32, BF16, DType.INT16])
@pytest.mark.parametrize(("each", "valid"), [(1, None), (1, 37), (4, None), (32, 5)])
@pytest.mark.parametrize("partitions", [16, 128])
def test_local_gather_takes_the_indices_of_16_partitions(
    dtype: DType, each: int, valid: int | None, partitions: int
) -> None:
    data = values(dtype, partitions, 60)
    index = indices(np.uint16, 61 - each, partitions, 3)
    count = 48 if valid is None else valid
    got = simulate(
        "local_gather",
        ((partitions, count * each), dtype),
        {"src_buffer": data, "index": index},
        num_elem_per_idx=each,
        num_valid_indices=valid,
    )
    assert got.tolist() == gathered(data, index, each=each, count=count).tolist()


def test_local_gather_does_not_depend_on_the_tiling_of_cores() -> None:
    data, index = values(F32, 128, 20), indices(np.uint16, 20, 128, 2)
    builder = Builder()
    tile, where, dst = builder.load("x", data), builder.load("i", index), builder.tile((128, 32))
    for start in (0, 32, 64, 96):
        views = [builder.view(v, rows=(start, 1, 32)) for v in (dst, tile, where)]
        operands: Operands = dict(zip(("dst", "src_buffer", "index"), views, strict=True))
        builder.add("local_gather", operands)
    builder.store(dst)
    assert builder.outputs()[0].tolist() == gathered(data, index, each=1, count=32).tolist()


def poisoned(op: str, builder: Builder, operands: Operands, dst: View) -> tuple[str, Array]:
    builder.add(op, {**operands, "dst": dst})
    builder.store(dst)
    result = builder.run()
    (finding,) = result.findings
    return f"{finding.code} {finding.got}", result.outputs[0]


def test_n_gather_outside_of_the_data_is_poison_and_a_warning() -> None:
    builder = Builder()
    operands: Operands = {
        "data": builder.load("x", np.ones((2, 4), np.float32)),
        "indices": builder.load("i", np.array([[0, 4], [3, 2**32 - 1]], np.uint32)),
    }
    found, got = poisoned("nc_n_gather", builder, operands, builder.tile((2, 2)))
    assert found == "NK202 4294967295"
    assert np.isnan(got).tolist() == [[False, True], [False, True]]


def test_local_gather_past_the_end_poisons_only_what_is_outside() -> None:
    builder = Builder()
    index = np.zeros((16, 1), np.uint16)
    index[1] = 3
    operands: Operands = {
        "src_buffer": builder.load("x", np.ones((16, 4), np.int32)),
        "index": builder.load("i", index),
    }
    builder.add(
        "local_gather",
        {**operands, "dst": (dst := builder.tile((16, 4), I32))},
        num_elem_per_idx=2,
        num_valid_indices=2,
    )
    builder.store(dst)
    result = builder.run()
    assert [f"{f.code} {f.got}" for f in result.findings] == ["NK202 4"]
    assert result.outputs[0].tolist() == [[1, 1, 1, 0x7F7F7F7F]] * 16


# Searches.


def nonzero(src: Array, before: Array, **attributes: AttributeValue) -> Array:
    builder = Builder()
    tile, dst = builder.load("x", src), builder.load("y", before)
    builder.add("nonzero_with_count", {"dst": dst, "src": tile}, engine=None, **attributes)
    builder.store(dst)
    return builder.outputs()[0]


@pytest.mark.parametrize("dtype", [F32, I32])
def test_nonzero_works_on_the_first_partition_of_each_core(dtype: DType) -> None:
    src, before = whole(48, 9, high=2).astype(dtype.numpy_dtype), np.full((48, 10), 77, np.int32)
    wanted = before.copy()
    for row in (0, 16, 32):
        found = [i + 100 for i, value in enumerate(src[row].tolist()) if value != 0]
        wanted[row] = [*found, *[-5] * (9 - len(found)), len(found)]
    got = nonzero(src, before, index_offset=100, padding_val=-5)
    assert got.tolist() == wanted.tolist()


def test_nonzero_of_nothing_is_padding() -> None:
    got = nonzero(np.zeros((1, 3), np.float32), np.zeros((1, 4), np.int32))
    assert got.tolist() == [[-1, -1, -1, 0]]


def test_nonzero_by_tiles_equals_nonzero_of_all() -> None:
    src = whole(1, 24, high=2).astype(np.float32)
    parts = []
    for start in range(0, 24, 8):
        tile = src[:, start : start + 8]
        (row,) = nonzero(tile, np.zeros((1, 9), np.int32), index_offset=start)
        parts += row[: row[-1]].tolist()
    assert parts == np.flatnonzero(src[0]).tolist()


def bounds(ids: list[float], dtype: DType = I32) -> list[list[float]]:
    array = np.array([ids], dtype.numpy_dtype)
    got = simulate("sequence_bounds", ((1, 2, len(ids)), dtype), {"segment_ids": array})
    return [[float(x) for x in row] for row in got[0]]


@pytest.mark.parametrize("dtype", [F32, I32])
def test_sequence_bounds_of_runs_and_padding(dtype: DType) -> None:
    got = bounds([1, 1, 2, 0, 0, 3, 3, 3, 0], dtype)
    assert got == [[0, 0, 2, 9, 9, 5, 5, 5, 9], [2, 2, 3, -1, -1, 8, 8, 8, -1]]


@pytest.mark.parametrize("ids", [[4.0], [0.0]])
def test_sequence_bounds_of_one_element(ids: list[float]) -> None:
    assert bounds(ids) == ([[0], [1]] if ids[0] else [[1], [-1]])


def test_sequence_bounds_tell_runs_of_one_id_apart() -> None:
    assert bounds([7, 8, 7]) == [[0, 1, 2], [1, 2, 3]]


@pytest.mark.parametrize("bad", [-1.0, 0.5, float("nan")])
def test_sequence_bounds_of_no_id_is_poison_and_a_warning(bad: float) -> None:
    builder = Builder()
    ids = builder.load("x", np.array([[1.0, bad]], np.float32))
    dst = builder.tile((1, 2, 2))
    builder.add("sequence_bounds", {"dst": dst, "segment_ids": ids})
    builder.store(dst)
    result = builder.run()
    assert [f.code for f in result.findings] == ["NK506"]
    assert np.isnan(result.outputs[0]).tolist() == [[[False, True], [False, True]]]


def topk(src: Array, n: int, k: int) -> tuple[Array, Array]:
    """Values and indices, each group's snake read out: (groups, columns * 16)."""
    builder = Builder()
    shape = (len(src), k)
    val, idx = builder.tile(shape, BF16), builder.tile(shape, U32)
    operands: Operands = {"val_dst": val, "idx_dst": idx, "src": builder.load("x", src)}
    builder.add("topk", operands, n=n)
    builder.store(val)
    builder.store(idx)
    first, second = (a.reshape(-1, 16, k).transpose(0, 2, 1) for a in builder.outputs())
    groups = len(src) // 16
    return first.reshape(groups, -1).astype(np.float32), second.reshape(groups, -1)


def snake(src: Array, n: int) -> Array:
    free = src.shape[1]
    return src.reshape(-1, 16, free).transpose(0, 2, 1).reshape(-1, free * 16)[:, :n]


@pytest.mark.parametrize(("n", "k"), [(42, 8), (48, 48), (8, 1), (33, 17)])
@pytest.mark.parametrize("partitions", [16, 128])
def test_topk_gives_the_largest_of_each_snake_in_ascending_order(
    n: int, k: int, partitions: int
) -> None:
    plain = rng_for(0, "topk").permutation(partitions * 3).reshape(partitions, 3) % 200
    src = plain.astype(BF16.numpy_dtype)
    found, where = topk(src, n, k)
    elements = snake(src, n).astype(np.float32)
    assert found[:, :k].tolist() == np.sort(elements, axis=1)[:, -k:].tolist()
    assert np.take_along_axis(elements, where[:, :k].astype(int), 1).tolist() == (
        found[:, :k].tolist()
    )
    assert bool(np.isnan(found[:, k:]).all())
    assert set(where[:, k:].ravel().tolist()) <= {0x7F7F7F7F}


def test_topk_prefers_the_first_of_equal_values() -> None:
    src = np.zeros((16, 1), BF16.numpy_dtype)
    src[[2, 5, 9, 11], 0] = [1.0, 2.0, 1.0, 1.0]
    found, where = topk(src, 16, 3)
    assert found[0, :3].tolist() == [1, 1, 2]
    assert where[0, :3].tolist() == [9, 2, 5]


def test_topk_treats_zeros_as_equal_and_nan_as_the_largest() -> None:
    src = np.full((16, 1), -1.0, BF16.numpy_dtype)
    src[[0, 1, 2, 3], 0] = [-0.0, 0.0, np.nan, np.inf]
    found, where = topk(src, 16, 4)
    assert where[0, :4].tolist() == [1, 0, 3, 2]
    assert found[0, :3].tolist() == [0, 0, np.inf]
    assert bool(np.isnan(found[0, 3]))


def test_topk_takes_infinities_and_negative_values() -> None:
    src = np.array([-np.inf, -3, 5, -1, 0, -2, -7, -0.5] * 2, BF16.numpy_dtype).reshape(16, 1)
    assert topk(src, 8, 8)[0][0, :8].tolist() == [-np.inf, -7, -3, -2, -1, -0.5, 0, 5]
