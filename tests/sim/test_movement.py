"""DMA, copies, fills."""

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from tests.sim.build import Array, Builder, Operands, View, simulate

F32, BF16, I32 = DType.FLOAT32, DType.BFLOAT16, DType.INT32
FLOATS = (
    F32,
    BF16,
    DType.FLOAT16,
    DType.FLOAT8_E4M3,
    DType.FLOAT8_E4M3FN,
    DType.FLOAT8_E5M2,
)
INTEGERS = (I32, DType.UINT32, DType.INT16, DType.UINT16, DType.INT8, DType.UINT8)


def every_bit(dtype: DType, *shape: int) -> Array:
    """Random bytes seen as this format, NaN of any payload included."""
    count = int(np.prod(shape)) * dtype.itemsize
    raw = rng_for(0, dtype).integers(0, 256, count).astype(np.uint8)
    return raw.view(dtype.numpy_dtype).reshape(shape)


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


def copy(values: Array, dtype: DType, op: str) -> Array:
    """Values of an argument by DMA to a tile, then by `op` to one of this dtype."""
    builder = Builder()
    tile, dst = builder.load("x", values), builder.tile(values.shape, dtype)
    builder.add(op, {"dst": dst, "src": tile})
    builder.store(dst)
    return builder.outputs()[0]


@pytest.mark.parametrize("op", ["dma_copy", "tensor_copy"])
@pytest.mark.parametrize("dtype", [F32, *INTEGERS])
def test_equal_formats_copy_bits(op: str, dtype: DType) -> None:
    values = every_bit(dtype, 16, 40)
    assert copy(values, dtype, op).tobytes() == values.tobytes()


@pytest.mark.parametrize("op", ["dma_copy", "tensor_copy"])
@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_equal_narrow_floats_copy_every_value(op: str, dtype: DType) -> None:
    """A NaN stays one, without its payload where the format has several."""
    values = every_bit(dtype, 16, 40)
    got = copy(values, dtype, op)
    is_nan = np.isnan(values.astype(np.float32))
    unsigned = f"u{dtype.itemsize}"
    assert bool((got.view(unsigned) == values.view(unsigned))[~is_nan].all())
    assert bool(np.isnan(got.astype(np.float32))[is_nan].all())


@pytest.mark.parametrize("op", ["dma_copy", "tensor_copy"])
@pytest.mark.parametrize("src", FLOATS)
@pytest.mark.parametrize("dst", FLOATS)
def test_floats_are_cast_through_float32(op: str, src: DType, dst: DType) -> None:
    with np.errstate(all="ignore"):
        values = (8 * normal(16, 40)).astype(src.numpy_dtype)
        wanted = values.astype(np.float32).astype(dst.numpy_dtype)
    assert copy(values, dst, op).astype(np.float32).tolist() == wanted.astype(np.float32).tolist()


def test_tfloat32_is_copied_with_bits_that_engines_do_not_read() -> None:
    values = np.array([[1 + 2**-20]], np.float32)
    builder = Builder()
    tile, copied = builder.load("x", values, DType.TFLOAT32), builder.tile((1, 1), DType.TFLOAT32)
    builder.add("tensor_copy", {"dst": copied, "src": tile})
    builder.store(copied)
    read = builder.tile((1, 1))
    builder.add("tensor_copy", {"dst": read, "src": copied})
    builder.store(read)
    assert [out.tolist() for out in builder.outputs()] == [values.tolist(), [[1.0]]]


def test_words_lose_low_bits_on_their_way_through_float32() -> None:
    values = np.array([[16777217, -16777217, 2**31 - 1, 7]], np.int32)
    assert copy(values, F32, "dma_copy").tolist() == [[16777216, -16777216, 2.0**31, 7]]
    assert copy(values, DType.UINT32, "tensor_copy").tolist() == [[16777216, 0, 2**31, 7]]
    assert copy(values, DType.INT16, "dma_copy").tolist() == [[32767, -32768, 32767, 7]]


def test_floats_become_the_nearest_integer_and_saturate() -> None:
    values = np.array([[0.5, 1.5, -2.5, 300.0, -300.0, np.nan]], np.float32)
    assert copy(values, DType.INT8, "tensor_copy").tolist() == [[0, 2, -2, 127, -128, 0]]
    assert copy(values, DType.UINT8, "dma_copy").tolist() == [[0, 2, 0, 255, 0, 0]]


@pytest.mark.parametrize("dtype", [F32, BF16, I32])
def test_dma_walks_both_sides_in_row_major_order(dtype: DType) -> None:
    values = (100 * normal(6, 8, 5)).astype(dtype.numpy_dtype)
    builder = Builder()
    source, tile = builder.argument("x", values), builder.tile((12, 20), dtype)
    builder.add("dma_copy", {"dst": tile, "src": source})
    builder.store(tile)
    assert builder.outputs()[0].tolist() == values.reshape(12, 20).tolist()


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_dma_reads_strided_and_overlapping_windows(dtype: DType) -> None:
    values = normal(10, 12).astype(dtype.numpy_dtype)
    size = dtype.itemsize
    builder = Builder()
    source, tile = builder.argument("x", values), builder.tile((4, 5, 3), dtype)
    windows = builder.view(
        source, free=((24 * size, 4), (size, 5), (2 * size, 3)), offset=12 * size
    )
    builder.add("dma_copy", {"dst": tile, "src": windows})
    builder.store(tile)
    wanted = [
        [[values[1 + 2 * i, j + 2 * k] for k in range(3)] for j in range(5)] for i in range(4)
    ]
    assert builder.outputs()[0].tolist() == np.array(wanted).tolist()


def test_dma_inside_of_one_tensor_reads_first() -> None:
    values = normal(1, 20)
    builder = Builder()
    memory = builder.argument("x", values)
    low, high = (builder.columns(memory, start, start + 15) for start in (0, 5))
    builder.add("dma_copy", {"dst": high, "src": low})
    result = builder.run()
    wanted = values.copy()
    wanted[:, 5:] = values[:, :15]
    assert result.updated["x"].tolist() == wanted.tolist()


@pytest.mark.parametrize("shape", [(16, 24), (4, 5, 6), (3, 2, 4, 8)])
@pytest.mark.parametrize("dtype", [DType.INT16, DType.INT32])
def test_dma_transpose_permutes_axes(shape: tuple[int, ...], dtype: DType) -> None:
    axes = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(shape)]
    values = every_bit(dtype, *shape)
    builder = Builder()
    turned = values.transpose(axes)
    tile = builder.tile(turned.shape, dtype)
    builder.add("dma_transpose", {"dst": tile, "src": builder.argument("x", values)})
    builder.store(tile)
    assert builder.outputs()[0].tolist() == turned.tolist()


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_memset_fills_with_the_rounded_number(dtype: DType) -> None:
    number = 3 if dtype.is_integer else 3.14159
    builder = Builder()
    tile = builder.tile((4, 5), dtype)
    builder.add("memset", {"dst": tile, "value": number})
    builder.store(tile)
    wanted = np.full((4, 5), np.float32(number)).astype(dtype.numpy_dtype)
    assert builder.outputs()[0].tolist() == wanted.tolist()


def test_memset_tells_zero_from_minus_zero() -> None:
    builder = Builder()
    tile = builder.tile((1, 2))
    for column, number in enumerate((0.0, -0.0)):
        builder.add("memset", {"dst": builder.columns(tile, column, column + 1), "value": number})
    other = builder.tile((1, 2))
    for column, number in enumerate((0.0, -0.0)):
        part = builder.columns(other, column, column + 1)
        builder.add(
            "tensor_scalar",
            {"dst": part, "data": builder.columns(tile, 0, 1), "operand0": number},
            op0="add",
        )
    builder.store(tile)
    builder.store(other)
    signs = [np.signbit(out).tolist() for out in builder.outputs()]
    assert signs == [[[False, True]], [[False, False]]]


def test_memset_of_a_word_keeps_all_its_bits() -> None:
    builder = Builder()
    tile = builder.tile((1, 1), I32)
    builder.add("memset", {"dst": tile, "value": 16777217})
    builder.store(tile)
    assert builder.outputs()[0].tolist() == [[16777217]]


@pytest.mark.parametrize("dtype", [F32, BF16, I32])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("source", ["tile", "number"])
def test_predicated_copy_leaves_the_others(dtype: DType, source: str, *, reverse: bool) -> None:
    old = (50 * normal(8, 9)).astype(dtype.numpy_dtype)
    new = (50 * normal(8, 9, name="y")).astype(dtype.numpy_dtype)
    predicate = rng_for(0, "p").integers(0, 2, (8, 9)).astype(np.uint8)
    builder = Builder()
    dst = builder.load("old", old)
    value: View | float | int
    if source == "tile":
        value = builder.load("new", new)
    else:
        value = 7 if dtype.is_integer else 7.0
        new = np.full_like(new, 7)
    form: Operands = {"dst": dst, "src": value, "predicate": builder.load("p", predicate)}
    builder.add("tensor_copy_predicated", form, reverse_pred=reverse)
    builder.store(dst)
    wanted = np.where((predicate != 0) ^ reverse, new, old)
    assert builder.outputs()[0].tolist() == wanted.tolist()


def test_psum_is_copied_out() -> None:
    values = normal(4, 6)
    builder = Builder()
    psum = builder.tile((4, 6), F32, Memory.PSUM)
    builder.add("tensor_copy", {"dst": psum, "src": builder.load("x", values)})
    builder.store(psum)
    assert builder.outputs()[0].tolist() == values.tolist()


def test_scratch_memory_in_hbm_holds_what_is_written() -> None:
    values = normal(4, 6)
    builder = Builder()
    hbm = builder.tile((4, 6), F32, Memory.PRIVATE_HBM)
    builder.add("dma_copy", {"dst": hbm, "src": builder.argument("x", values)})
    tile = builder.tile((4, 6))
    builder.add("dma_copy", {"dst": tile, "src": hbm})
    builder.store(tile)
    assert builder.outputs()[0].tolist() == values.tolist()


def test_an_instruction_of_one_element_runs() -> None:
    got = simulate("tensor_copy", ((1, 1), BF16), {"src": np.array([[2.5]], np.float32)})
    assert got.astype(np.float32).tolist() == [[2.5]]


# dma_compute.


@pytest.mark.parametrize("count", [1, 2, 16])
def test_dma_compute_adds_all_sources_in_order(count: int) -> None:
    arrays = [normal(4, 6, name=f"x{i}") for i in range(count)]
    builder = Builder()
    sources = [builder.argument(f"x{i}", array) for i, array in enumerate(arrays)]
    dst = builder.tile((4, 6), BF16)
    builder.add("dma_compute", {"dst": dst, "srcs": sources}, reduce_op="add")
    builder.store(dst)
    wanted = np.add.accumulate(arrays)[-1].astype(BF16.numpy_dtype)
    assert builder.outputs()[0].tolist() == wanted.tolist()


def test_dma_compute_takes_formats_and_shapes_that_differ() -> None:
    builder = Builder()
    tile = builder.load("x", normal(4, 6).astype(BF16.numpy_dtype))
    flat = builder.argument("y", np.arange(24, dtype=np.int32))
    out = builder.tile((6, 4), F32, Memory.SHARED_HBM)
    builder.add("dma_compute", {"dst": out, "srcs": [tile, flat]}, reduce_op="add")
    builder.result(out)
    wanted = normal(4, 6).astype(BF16.numpy_dtype).astype(np.float32).ravel() + np.arange(24)
    assert builder.outputs()[0].ravel().tolist() == wanted.astype(np.float32).tolist()


def test_dma_compute_may_add_to_its_destination() -> None:
    builder = Builder()
    tile, more = builder.load("x", normal(4, 6)), builder.load("y", normal(4, 6, name="y"))
    builder.add("dma_compute", {"dst": tile, "srcs": [more, tile, tile]}, reduce_op="add")
    builder.store(tile)
    x, y = normal(4, 6), normal(4, 6, name="y")
    assert builder.outputs()[0].tolist() == ((y + x) + x).tolist()
