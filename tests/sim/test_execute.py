"""Programs as a whole: memory, borders, runs."""

import numpy as np
import pytest

from nki_agent.base.errors import KernelError
from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.isa.table import TABLE
from nki_agent.program.records import Program
from nki_agent.sim.addresses import BOXES_MAX
from nki_agent.sim.execute import RunResult, compile_program
from nki_agent.sim.table import HANDLERS
from tests.sim.build import Array, Builder, View

F32, BF16, I32 = DType.FLOAT32, DType.BFLOAT16, DType.INT32
FORMATS = [d for d in DType if d not in (DType.BOOL, DType.TFLOAT32)]


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


def test_every_declared_instruction_has_a_handler() -> None:
    assert HANDLERS.keys() == TABLE.keys()


# Borders.


@pytest.mark.parametrize("dtype", FORMATS)
def test_an_argument_comes_back_as_it_went_in(dtype: DType) -> None:
    values = rng_for(0, dtype).integers(1, 100, (4, 6)).astype(np.float32).astype(dtype.numpy_dtype)
    builder = Builder()
    builder.store(builder.load("x", values))
    (got,) = builder.outputs()
    assert (got.dtype, got.shape) == (values.dtype, values.shape)
    assert got.tobytes() == values.tobytes()


def test_booleans_are_bytes() -> None:
    values = np.array([[True, False]])
    builder = Builder()
    builder.store(builder.load("x", values))
    assert builder.outputs()[0].tolist() == [[1, 0]]


def test_a_result_has_its_own_shape() -> None:
    builder = Builder()
    out = builder.tile((4, 6), F32, Memory.SHARED_HBM)
    builder.add("dma_copy", {"dst": out, "src": builder.load("x", normal(4, 6))})
    builder.result(out)
    builder.results[0] = type(builder.results[0])(out.tensor, (3, 8))
    assert builder.outputs()[0].tolist() == normal(4, 6).reshape(3, 8).tolist()


def test_arrays_are_never_modified_and_updates_are_shown() -> None:
    values = normal(4, 6)
    builder = Builder()
    argument = builder.argument("x", values)
    tile = builder.tile((4, 6))
    builder.add("dma_copy", {"dst": tile, "src": argument})
    builder.add("tensor_scalar", {"dst": tile, "data": tile, "operand0": 2.0}, op0="multiply")
    builder.add("dma_copy", {"dst": argument, "src": tile})
    before = values.copy()
    result = builder.run()
    assert values.tolist() == before.tolist()
    assert result.outputs == ()
    assert result.updated["x"].tolist() == (2 * before).tolist()


def test_read_arguments_are_not_listed_as_updated() -> None:
    builder = Builder()
    builder.store(builder.load("x", normal(4, 6)))
    assert builder.run().updated == {}


def test_outputs_belong_to_the_caller() -> None:
    builder = Builder()
    builder.store(builder.load("x", normal(4, 6)))
    executable = builder.compile()
    first = executable.run(builder.arrays).outputs[0]
    first[...] = 0
    second = executable.run({"x": normal(4, 6, name="y")}).outputs[0]
    assert first.tolist() == np.zeros((4, 6)).tolist()
    assert second.tolist() == normal(4, 6, name="y").tolist()


def test_an_array_that_was_not_traced_so_is_refused() -> None:
    builder = Builder()
    builder.store(builder.load("x", normal(4, 6)))
    executable = builder.compile()
    with pytest.raises(ValueError, match=r"float32 \[4, 6\], the array is float32 \[4, 7\]"):
        executable.run({"x": normal(4, 7)})
    with pytest.raises(ValueError, match="the array is float64"):
        executable.run({"x": normal(4, 6).astype(np.float64)})
    with pytest.raises(ValueError, match="no array for the argument `x`"):
        executable.run({})


def test_an_argument_may_be_strided() -> None:
    values = normal(8, 12)[::2, ::2]
    builder = Builder()
    builder.store(builder.load("x", values))
    assert builder.outputs()[0].tolist() == values.tolist()


def test_constants_are_inputs_and_start_anew_with_every_run() -> None:
    builder = Builder()
    constant, tile = builder.constant(normal(2, 3)), builder.tile((2, 3))
    builder.add("dma_copy", {"dst": tile, "src": constant})
    builder.store(tile)
    builder.add("tensor_scalar", {"dst": tile, "data": tile, "operand0": 1.0}, op0="add")
    builder.add("dma_copy", {"dst": constant, "src": tile})
    executable = builder.compile()
    for _ in range(2):
        assert executable.run({}).outputs[0].tolist() == normal(2, 3).tolist()


def test_a_constant_may_be_returned() -> None:
    builder = Builder()
    builder.result(builder.constant(normal(2, 3)))
    assert builder.outputs()[0].tolist() == normal(2, 3).tolist()


def test_an_argument_may_be_returned() -> None:
    builder = Builder()
    builder.result(builder.argument("x", normal(2, 3)))
    assert builder.outputs()[0].tolist() == normal(2, 3).tolist()


# Poison.


@pytest.mark.parametrize("dtype", FORMATS)
def test_unwritten_memory_is_poison(dtype: DType) -> None:
    builder = Builder()
    builder.store(builder.tile((2, 3), dtype))
    (got,) = builder.outputs()
    if not dtype.is_float:
        assert set(got.tobytes()) == {0x7F if dtype.is_integer else 0xFF}
    else:
        assert bool(np.isnan(got.astype(np.float32)).all())


def test_an_output_that_is_never_written_is_poison_in_every_run() -> None:
    builder = Builder()
    out = builder.tile((4, 6), F32, Memory.SHARED_HBM)
    tile = builder.load("x", normal(2, 6))
    builder.add("dma_copy", {"dst": builder.view(out, free=((24, 2), (4, 6))), "src": tile})
    builder.result(out)
    executable = builder.compile()
    for _ in range(2):
        got = executable.run(builder.arrays).outputs[0]
        assert got[:2].tolist() == normal(2, 6).tolist()
        assert bool(np.isnan(got[2:]).all())


def test_an_output_that_is_read_before_it_is_written_is_poison_in_every_run() -> None:
    builder = Builder()
    out, tile = builder.tile((2, 3), F32, Memory.SHARED_HBM), builder.tile((2, 3))
    builder.add("dma_copy", {"dst": tile, "src": out})
    builder.store(tile)
    builder.add("dma_copy", {"dst": out, "src": builder.load("x", normal(2, 3))})
    builder.result(out)
    executable = builder.compile()
    for _ in range(2):
        early, late = executable.run(builder.arrays).outputs
        assert bool(np.isnan(early).all())
        assert late.tolist() == normal(2, 3).tolist()


def test_a_buffer_that_is_used_again_shows_nothing_of_the_tensor_before() -> None:
    builder = Builder()
    for i in range(3):
        builder.store(builder.load(f"x{i}", normal(4, 6)))
        fresh = builder.tile((4, 6))
        part = builder.columns(fresh, 1, 3)
        builder.add("memset", {"dst": part, "value": 1.0})
        builder.store(fresh)
    for got in builder.outputs()[1::2]:
        assert np.isnan(got).sum(1).tolist() == [4] * 4


def test_an_instruction_that_reads_what_it_writes_whole_sees_poison() -> None:
    builder = Builder()
    builder.store(builder.load("x", normal(4, 6)))
    tile = builder.tile((4, 6))
    builder.add("tensor_scalar", {"dst": tile, "data": tile, "operand0": 1.0}, op0="multiply")
    builder.store(tile)
    assert bool(np.isnan(builder.outputs()[1]).all())


# Tensors seen with several formats.


@pytest.mark.parametrize("dtype", [BF16, DType.FLOAT16, DType.FLOAT8_E4M3, DType.FLOAT8_E5M2, I32])
def test_a_view_of_another_format_sees_the_bytes(dtype: DType) -> None:
    values = normal(4, 8)
    count = 32 // dtype.itemsize
    builder = Builder()
    tile = builder.load("x", values)
    other = builder.view(tile, dtype=dtype, free=((dtype.itemsize, count),))
    builder.store(other)
    wanted = values.view(dtype.numpy_dtype)
    got = builder.outputs()[0]
    same = got.astype(np.float32) == wanted.astype(np.float32)
    assert bool((same | np.isnan(wanted.astype(np.float32))).all())


@pytest.mark.parametrize("dtype", [BF16, DType.FLOAT16, DType.FLOAT8_E4M3, DType.TFLOAT32])
def test_writes_of_a_narrow_format_lay_down_its_bytes(dtype: DType) -> None:
    values = normal(4, 8)
    builder = Builder()
    tile = builder.tile((4, 8), dtype)
    builder.add(
        "tensor_scalar",
        {"dst": tile, "data": builder.load("x", values), "operand0": 1.0},
        op0="multiply",
    )
    unsigned = {1: DType.UINT8, 2: DType.UINT16, 4: DType.UINT32}[dtype.itemsize]
    builder.store(builder.view(tile, dtype=unsigned))
    builder.store(tile)
    codes, back = builder.outputs()
    if dtype is DType.TFLOAT32:
        assert bool((codes & 0x1FFF == 0).all())
        assert back == pytest.approx(values, rel=2**-11)
    else:
        wanted = values.astype(dtype.numpy_dtype)
        assert codes.tobytes() == wanted.tobytes()
        assert back.tobytes() == wanted.tobytes()


def test_the_sign_bit_can_be_cleared_through_an_integer_view() -> None:
    values = normal(4, 8)
    builder = Builder()
    tile = builder.load("x", values)
    bits = builder.view(tile, dtype=I32)
    builder.add(
        "tensor_scalar", {"dst": bits, "data": bits, "operand0": 0x7FFFFFFF}, op0="bitwise_and"
    )
    builder.store(tile)
    assert builder.outputs()[0].tolist() == np.abs(values).tolist()


def test_strides_that_elements_do_not_divide_are_followed() -> None:
    raw = np.arange(1, 25, dtype=np.uint8).reshape(2, 12)
    builder = Builder()
    tile = builder.load("x", raw)
    odd = builder.view(tile, dtype=DType.UINT16, free=((3, 4),))
    builder.store(odd)
    wanted = [[int(row[3 * i]) + 256 * int(row[3 * i + 1]) for i in range(4)] for row in raw]
    assert builder.outputs()[0].tolist() == wanted


@pytest.mark.parametrize("dtype", [BF16, DType.FLOAT16])
def test_arithmetic_is_the_same_on_both_kinds_of_storage(dtype: DType) -> None:
    values = normal(8, 16).astype(dtype.numpy_dtype)

    def compute(*, as_bytes: bool) -> Array:
        builder = Builder()
        tile, dst = builder.load("x", values), builder.tile((8, 16), dtype)
        operands: dict[str, View | float | int | None] = {"dst": dst, "data": tile}
        builder.add(
            "tensor_scalar",
            operands | {"operand0": 0.3, "operand1": 0.7},
            op0="multiply",
            op1="add",
        )
        builder.add("activation", {"dst": dst, "data": dst}, op="exp")
        builder.store(dst)
        if as_bytes:
            for view in (tile, dst):
                builder.store(builder.view(view, dtype=DType.UINT16))
        return builder.outputs()[0]

    assert compute(as_bytes=True).tobytes() == compute(as_bytes=False).tobytes()


# Addresses.


def test_overlapping_addresses_share_bytes() -> None:
    builder = Builder()
    first = builder.tile((4, 8), F32, address=(0, 0))
    second = builder.tile((4, 8), F32, address=(0, 16))
    builder.add("dma_copy", {"dst": first, "src": builder.argument("x", normal(4, 8))})
    builder.add("memset", {"dst": second, "value": 7.0})
    builder.store(first)
    wanted = normal(4, 8)
    wanted[:, 4:] = 7
    assert builder.outputs()[0].tolist() == wanted.tolist()


def test_addresses_share_partitions_too() -> None:
    builder = Builder()
    first = builder.tile((64, 2), F32, address=(0, 0))
    second = builder.tile((32, 2), F32, address=(32, 0))
    builder.add("memset", {"dst": first, "value": 1.0})
    builder.add("memset", {"dst": second, "value": 2.0})
    builder.store(first)
    assert builder.outputs()[0].tolist() == [[1, 1]] * 32 + [[2, 2]] * 32


def test_a_tensor_placed_over_a_finished_one_sees_its_bytes_in_another_format() -> None:
    values = normal(4, 8)
    builder = Builder()
    first = builder.tile((4, 8), F32, address=(0, 64))
    second = builder.tile((4, 16), BF16, address=(0, 64))
    builder.add("dma_copy", {"dst": first, "src": builder.argument("x", values)})
    builder.store(second)
    got = builder.outputs()[0]
    assert got.tobytes() == values.view(BF16.numpy_dtype).tobytes()


def test_addresses_that_take_turns_do_not_disturb_each_other() -> None:
    builder = Builder()
    for i in range(4):
        tile = builder.tile((4, 8), F32, address=(0, 32 * (i % 2)))
        builder.add(
            "dma_copy", {"dst": tile, "src": builder.argument(f"x{i}", normal(4, 8, name=str(i)))}
        )
        builder.store(tile)
    for i, got in enumerate(builder.outputs()):
        assert got.tolist() == normal(4, 8, name=str(i)).tolist()


def test_addresses_in_other_memories_do_not_meet() -> None:
    builder = Builder()
    for memory, number in ((Memory.SBUF, 1.0), (Memory.PSUM, 2.0)):
        tile = builder.tile((4, 8), F32, memory, address=(0, 0))
        builder.add("memset", {"dst": tile, "value": number})
    for memory, view in zip((Memory.SBUF, Memory.PSUM), (0, 1), strict=True):
        builder.store(View(view, memory, F32, 0, builder.tile((4, 8)).pattern))
    assert [float(out[0, 0]) for out in builder.outputs()] == [1, 2]


# Runs.


def long_program(*, is_reused: bool) -> Builder:
    """A chain over twelve tiles; with `is_reused` false, every tile stays in use to the end."""
    builder = Builder()
    kept, total = [], builder.tile((8, 10), BF16)
    builder.add("memset", {"dst": total, "value": 0.0})
    for i in range(12):
        tile = builder.load(f"x{i}", normal(8, 10, name=str(i)))
        half = builder.tile((8, 10), BF16)
        builder.add("activation", {"dst": half, "data": tile, "scale": 0.5}, op="gelu")
        builder.add("tensor_tensor", {"dst": total, "data1": total, "data2": half}, op="add")
        kept += [tile, half]
    builder.store(total)
    if not is_reused:
        for view in kept:
            builder.store(view)
    return builder


def test_buffers_that_are_used_again_do_not_change_results() -> None:
    reused, kept = (long_program(is_reused=flag).outputs()[0] for flag in (True, False))
    assert reused.tobytes() == kept.tobytes()


def test_runs_are_equal_and_do_not_know_of_each_other() -> None:
    builder = long_program(is_reused=True)
    executable = builder.compile()

    def run(offset: float) -> RunResult:
        return executable.run(
            {name: array + np.float32(offset) for name, array in builder.arrays.items()}
        )

    first = run(0.0).outputs[0].tobytes()
    other = run(1.0).outputs[0].tobytes()
    assert run(0.0).outputs[0].tobytes() == first
    assert other != first
    assert builder.compile().run(builder.arrays).outputs[0].tobytes() == first
    assert executable.run(builder.arrays, with_checks=False).outputs[0].tobytes() == first


def test_a_program_without_instructions_runs() -> None:
    builder = Builder()
    out = builder.tile((2, 2), F32, Memory.SHARED_HBM)
    builder.result(out)
    assert bool(np.isnan(builder.outputs()[0]).all())


def test_numbers_of_one_instruction_may_differ() -> None:
    builder = Builder()
    tile = builder.tile((1, 4))
    for i in range(4):
        builder.add("memset", {"dst": builder.columns(tile, i, i + 1), "value": i / 2})
    for number in (2.0, 1.0, 0.0, -3.0):
        builder.add("tensor_scalar", {"dst": tile, "data": tile, "operand0": number}, op0="add")
    builder.store(tile)
    assert builder.outputs()[0].tolist() == [[0, 0.5, 1, 1.5]]


# What is not modelled.


def refused(program: Program, memory_bytes_max: int = 2**30) -> tuple[str, str]:
    with pytest.raises(KernelError) as caught:
        compile_program(program, load_chip(Target.TRN2), memory_bytes_max=memory_bytes_max)
    return caught.value.diagnostic.code, caught.value.diagnostic.what


def test_more_memory_than_there_is_gets_refused() -> None:
    builder = Builder()
    builder.store(builder.load("x", normal(128, 512)))
    code, what = refused(builder.program(), memory_bytes_max=100_000)
    assert (code, "memory" in what) == ("NK114", True)


def test_memory_is_refused_before_it_is_taken() -> None:
    builder = Builder()
    builder.store(builder.load("x", normal(2, 2)))
    builder.add("memset", {"dst": builder.tile((128, 2**40)), "value": 0.0})
    assert refused(builder.program())[0] == "NK114"


def test_too_many_different_addresses_are_refused() -> None:
    builder = Builder()
    builder.store(builder.load("x", normal(2, 2)))
    for byte in range(BOXES_MAX + 1):
        tile = builder.tile((1, 1), DType.UINT8, Memory.SBUF, address=(0, byte))
        builder.add("memset", {"dst": tile, "value": 0})
    code, what = refused(builder.program())
    assert (code, "address" in what) == ("NK114", True)


def test_addresses_that_overlap_too_often_are_refused() -> None:
    builder = Builder()
    builder.store(builder.load("x", normal(2, 2)))
    for size in range(1, 2100):
        tile = builder.tile((1, size), DType.UINT8, Memory.SBUF, address=(0, 0))
        builder.add("memset", {"dst": tile, "value": 0})
    code, what = refused(builder.program())
    assert (code, "overlap" in what) == ("NK114", True)


def test_an_operator_that_only_reduces_is_refused_on_two_tiles() -> None:
    builder = Builder()
    x, dst = builder.load("x", normal(2, 2)), builder.tile((2, 2))
    builder.add("tensor_tensor", {"dst": dst, "data1": x, "data2": x}, op="average")
    code, what = refused(builder.program())
    assert (code, "nl.average" in what) == ("NK114", True)


def test_bitwise_operators_on_floats_are_refused() -> None:
    builder = Builder()
    x, dst = builder.load("x", normal(2, 2)), builder.tile((1, 2))
    builder.add("tensor_partition_reduce", {"dst": dst, "data": x}, op="bitwise_or")
    code, what = refused(builder.program())
    assert (code, "float32" in what) == ("NK114", True)


def test_an_operator_without_its_operand_is_refused() -> None:
    builder = Builder()
    x, dst = builder.load("x", normal(2, 2)), builder.tile((2, 2))
    builder.add("tensor_scalar", {"dst": dst, "data": x, "operand0": 1.0}, op0="add", op1="add")
    code, what = refused(builder.program())
    assert (code, "operand1" in what) == ("NK114", True)


# Values that a kernel may not expect.


def test_a_value_too_large_for_an_8_bit_float_is_reported() -> None:
    builder = Builder()
    tile = builder.load("x", np.array([[100.0, 300.0, np.inf]], np.float32))
    dst = builder.tile((1, 3), DType.FLOAT8_E4M3)
    builder.add("tensor_copy", {"dst": dst, "src": tile})
    builder.store(dst)
    result = builder.run()
    assert [(f.code, f.got, f.limit) for f in result.findings] == [("NK505", "300", "240")]
    assert result.outputs[0].astype(np.float32).tolist() == [[96.0, np.inf, np.inf]]
