"""Run-time offsets: scalars, rows by indices, elements by lists of indices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_agent.base.errors import KernelError
from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.program.records import MovedRows
from tests.kernels import body, refused
from tests.sim.build import Array
from tests.sim.traced import compiled, failed, line_of, run_kernel

TRN3 = Target.TRN3


def normal(*shape: int, name: str = "x") -> Array:
    return rng_for(0, name).standard_normal(shape).astype(np.float32)


def column(*values: int, dtype: str = "int32") -> Array:
    return np.array(values, dtype).reshape(-1, 1)


# One offset for a view.

SELECT = """
out = nl.ndarray((4, 8), dtype=nl.{dtype}, buffer=nl.shared_hbm)
index = nl.ndarray((1, 1), dtype=nl.{index})
nisa.dma_copy(dst=index, src=n)
r = nisa.register_alloc()
nisa.register_load(r, index)
old = nl.ndarray((4, 8), dtype=nl.{dtype})
nisa.memset(dst=old, value=1)
nisa.dma_copy(dst=old, src=x.select(1, {by}), oob_mode=nisa.oob_mode.{oob})
nisa.dma_copy(dst=out, src=old)
return out
"""


@pytest.mark.parametrize("by", ["r", "index"])
@pytest.mark.parametrize("index", ["int32", "uint32", "int16", "uint16"])
def test_a_register_or_a_tile_selects(by: str, index: str) -> None:
    x = normal(4, 5, 8)
    text = SELECT.format(dtype="float32", by=by, oob="error", index=index)
    for number in (0, 3, 4):
        got = run_kernel(text, {"x": x, "n": column(number, dtype=index)}).outputs[0]
        assert got.tolist() == x[:, number].tolist()


@pytest.mark.parametrize("number", [5, -1, 2**30, -(2**31)])
def test_an_offset_out_of_bounds_stops_the_run_at_its_line(number: int) -> None:
    text = SELECT.format(dtype="float32", by="r", oob="error", index="int32")
    finding = failed(text, {"x": normal(4, 5, 8), "n": column(number)})
    assert (finding.code, finding.got, finding.limit) == ("NK202", str(number), "0 to 4")
    assert finding.where[-1].line == line_of(text, "nisa.dma_copy(dst=old")


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_an_offset_out_of_bounds_may_leave_the_transfer_out(dtype: str) -> None:
    text = SELECT.format(dtype=dtype, by="r", oob="skip", index="int32")
    x = np.full((4, 5, 8), 7, dtype)
    for number, want in ((5, 1), (-1, 1), (0, 7)):
        got = run_kernel(text, {"x": x, "n": column(number)}).outputs[0]
        assert got.tolist() == [[want] * 8] * 4


def test_an_offset_moves_operands_of_engines_on_chip() -> None:
    text = """
out = nl.ndarray((4, 2), dtype=nl.bfloat16, buffer=nl.shared_hbm)
tile = nl.load(x)
got = nl.ndarray((4, 2), dtype=nl.bfloat16)
def step(i):
    part = tile.ap([[8, 4], [1, 2]], scalar_offset=i, indirect_dim=1)
    nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=2.0)
    nisa.tensor_copy(dst=got, src=part)
nl.fori_loop(0, 7, step)
nisa.dma_copy(dst=out, src=got)
return out
"""
    x = np.ones((4, 8), DType.BFLOAT16.numpy_dtype)
    assert run_kernel(text, {"x": x}).outputs[0].tolist() == [[4, 2]] * 4


def test_a_matmul_accumulates_at_run_time_offsets_of_psum() -> None:
    text = """
out = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.shared_hbm)
a = nl.load(x)
p = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.psum)
def step(i):
    part = p.ap([[8, 4], [1, 4]], scalar_offset=i, indirect_dim=1)
    nisa.nc_matmul(dst=part, stationary=a, moving=a)
nl.fori_loop(0, 5, step, step=2)
nisa.nc_matmul(dst=p[:, 0:4], stationary=a, moving=a)
r = nl.ndarray((4, 8), dtype=nl.float32)
nisa.tensor_copy(dst=r, src=p)
nisa.dma_copy(dst=out, src=r)
return out
"""
    x = normal(4, 4)
    want = np.zeros((4, 8), np.float32)
    for start in (0, 2, 4, 0):
        want[:, start : start + 4] += x.T @ x
    got = run_kernel(text, {"x": x}).outputs[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# Rows.

GATHER = """
out = nl.ndarray((n.shape[0], 6), dtype=nl.{dtype}, buffer=nl.shared_hbm)
rows = nl.ndarray(n.shape, dtype=nl.{index})
nisa.dma_copy(dst=rows, src=n)
tile = nl.ndarray((n.shape[0], 6), dtype=nl.{dtype})
nisa.memset(dst=tile, value=9)
nisa.dma_copy(dst=tile, src=x.vector_select(0, rows), oob_mode=nisa.oob_mode.{oob})
nisa.dma_copy(dst=out, src=tile)
return out
"""


@pytest.mark.parametrize("index", ["int32", "uint32", "int16", "uint16"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
def test_rows_are_gathered_by_indices(dtype: str, index: str) -> None:
    x = np.arange(48).reshape(8, 6).astype(DType(dtype).numpy_dtype)
    n = column(7, 0, 3, 3, 1, dtype=index)
    result = run_kernel(GATHER.format(dtype=dtype, oob="error", index=index), {"x": x, "n": n})
    assert result.outputs[0].tolist() == x[n[:, 0]].tolist()
    assert result.trips.rows == (MovedRows(0, 2, 5, 0),)


def test_a_row_out_of_bounds_stops_the_run_and_names_it() -> None:
    text = GATHER.format(dtype="float32", oob="error", index="int32")
    finding = failed(text, {"x": normal(8, 6), "n": column(1, 8, 99)})
    assert (finding.code, finding.got, finding.limit) == ("NK202", "8", "0 to 7")
    assert "`x`" in finding.what
    assert finding.where[-1].line == line_of(text, "nisa.dma_copy(dst=tile")


def test_unwritten_indices_are_out_of_bounds() -> None:
    text = GATHER.format(dtype="float32", oob="error", index="int32")
    text = text.replace("nisa.dma_copy(dst=rows, src=n)\n", "")
    finding = failed(text, {"x": normal(8, 6), "n": column(1, 2)})
    assert (finding.code, finding.got) == ("NK202", str(0x7F7F7F7F))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
def test_rows_that_are_skipped_keep_what_the_destination_holds(dtype: str) -> None:
    x = np.arange(48).reshape(8, 6).astype(DType(dtype).numpy_dtype)
    text = GATHER.format(dtype=dtype, oob="skip", index="int32")
    result = run_kernel(text, {"x": x, "n": column(7, -1, 3, 8, 1)})
    want = x[[7, 0, 3, 0, 1]].astype(np.float32)
    want[[1, 3]] = 9
    assert result.outputs[0].astype(np.float32).tolist() == want.tolist()
    assert result.trips.rows == (MovedRows(0, 2, 3, 2),)


def test_all_rows_may_be_skipped() -> None:
    text = GATHER.format(dtype="float32", oob="skip", index="int32")
    result = run_kernel(text, {"x": normal(8, 6), "n": column(8, 9)})
    assert result.outputs[0].tolist() == [[9] * 6] * 2
    assert result.trips.rows == (MovedRows(0, 2, 0, 2),)


def test_gathers_share_their_temporaries() -> None:
    text = """
out = nl.ndarray((4, 4096), dtype=nl.float32, buffer=nl.shared_hbm)
rows = nl.load(n)
tile = nl.ndarray((4, 4096), dtype=nl.float32)
for _ in range(40):
    nisa.dma_copy(dst=tile, src=x.vector_select(0, rows))
nisa.dma_copy(dst=out, src=tile)
return out
"""
    arrays = {"x": normal(4, 4096), "n": column(3, 2, 1, 0)}
    executable = compiled(text, arrays, memory_bytes_max=400_000)
    assert executable.run(arrays).outputs[0].tolist() == arrays["x"][::-1].tolist()


SCATTER = """
out = nl.ndarray((8, 6), dtype=nl.{dtype}, buffer=nl.shared_hbm)
full = nl.ndarray((8, 6), dtype=nl.{dtype})
nisa.memset(dst=full, value=9)
nisa.dma_copy(dst=out, src=full)
rows = nl.load(n)
nisa.dma_copy(dst=out.vector_select(0, rows), src=nl.load(x), oob_mode=nisa.oob_mode.{oob})
return out
"""


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
def test_rows_are_scattered_by_indices(dtype: str) -> None:
    x = np.arange(18).reshape(3, 6).astype(DType(dtype).numpy_dtype)
    got = run_kernel(SCATTER.format(dtype=dtype, oob="error"), {"x": x, "n": column(6, 0, 3)})
    want = np.full((8, 6), 9)
    want[[6, 0, 3]] = x
    assert got.outputs[0].astype(int).tolist() == want.tolist()


def test_rows_of_a_scatter_may_be_skipped_or_stop_the_run() -> None:
    arrays = {"x": normal(3, 6), "n": column(6, 8, 3)}
    got = run_kernel(SCATTER.format(dtype="float32", oob="skip"), arrays)
    want = np.full((8, 6), 9, np.float32)
    want[[6, 3]] = arrays["x"][[0, 2]]
    assert got.outputs[0].tolist() == want.tolist()
    assert [(r.moved, r.skipped) for r in got.trips.rows] == [(2, 1)]
    finding = failed(SCATTER.format(dtype="float32", oob="error"), arrays)
    assert (finding.code, finding.got) == ("NK202", "8")


def test_a_gather_goes_on_into_a_scatter() -> None:
    text = """
out = nl.ndarray((8, 6), dtype=nl.float32, buffer=nl.shared_hbm)
full = nl.zeros((8, 6), dtype=nl.float32)
nisa.dma_copy(dst=out, src=full)
a, b = nl.load(n), nl.load(m)
nisa.dma_copy(dst=out.vector_select(0, a), src=x.vector_select(0, b),
              oob_mode=nisa.oob_mode.skip)
return out
"""
    x = normal(8, 6)
    result = run_kernel(text, {"x": x, "n": column(1, 9, 5, 2), "m": column(0, 1, 7, -3)})
    want = np.zeros((8, 6), np.float32)
    want[[1, 5]] = x[[0, 7]]
    assert result.outputs[0].tolist() == want.tolist()


@settings(max_examples=20, deadline=None)
@given(
    indices=st.lists(st.integers(-2, 10), min_size=1, max_size=16),
    width=st.sampled_from([1, 3, 4]),
)
def test_a_gather_is_numpys(indices: list[int], width: int) -> None:
    x = normal(16, width)
    text = f"""
out = nl.ndarray((n.shape[0], {width}), dtype=nl.float32, buffer=nl.shared_hbm)
rows = nl.load(n)
tile = nl.zeros((n.shape[0], {width}), dtype=nl.float32)
src = x.ap([[{width}, n.shape[0]], [1, {width}]], vector_offset=rows)
nisa.dma_copy(dst=tile, src=src, oob_mode=nisa.oob_mode.skip)
nisa.dma_copy(dst=out, src=tile)
return out
"""
    want = np.array([x[i] if i >= 0 else np.zeros(width, np.float32) for i in indices])
    got = run_kernel(text, {"x": x, "n": column(*indices)}).outputs[0]
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("oob", ["error", "skip"])
def test_rows_are_gathered_and_transposed(oob: str) -> None:
    text = f"""
out = nl.ndarray((8, 16), dtype=nl.bfloat16, buffer=nl.shared_hbm)
rows = nl.load(n)
tile = nl.zeros((8, 16), dtype=nl.bfloat16)
nisa.dma_transpose(dst=tile, src=x.vector_select(0, rows), oob_mode=nisa.oob_mode.{oob})
nisa.dma_copy(dst=out, src=tile)
return out
"""
    x = np.arange(256).reshape(32, 8).astype(DType.BFLOAT16.numpy_dtype)
    order = [(i * 5) % 32 for i in range(16)]
    want = x[order].T.astype(np.float32)
    if oob == "skip":
        order[3] = 32
        want[:, 3] = 0
    got = run_kernel(text, {"x": x, "n": column(*order, dtype="uint32")}, target=TRN3)
    assert got.outputs[0].astype(np.float32).tolist() == want.tolist()


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "code"),
    [
        (24, 8, "uint32", "NK308"),
        (16, 8, "int32", "NK302"),
        (16, 130, "uint32", "NK304"),
    ],
)
def test_a_transpose_by_indices_has_limits(rows: int, width: int, dtype: str, code: str) -> None:
    text = f"""
out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
tile = nl.ndarray(({min(width, 128)}, {rows}), dtype=nl.bfloat16)
nisa.dma_transpose(dst=tile, src=x.vector_select(0, nl.load(n)))
return out
"""
    arguments = [
        ArgumentSpec("x", (32, width), DType.BFLOAT16),
        ArgumentSpec("n", (rows, 1), DType(dtype)),
    ]
    assert refused(body(text, params="x, n"), arguments).code == code


# Registers in brackets.


@pytest.mark.parametrize(
    ("index", "want"),
    [
        ("x[:, r]", lambda x: x[:, 2]),
        ("x[1:3, r, nl.ds(2, 4)]", lambda x: x[1:3, 2, 2:6]),
        ("x[..., nl.ds(r, 5)]", lambda x: x[..., 2:7]),
        ("x[nl.ds(r, 2), 0]", lambda x: x[2:4, 0]),
        ("x[r]", lambda x: x[2]),
        ("tile[:, r]", lambda x: x[:, 2]),
        ("tile[1:3, 0, nl.ds(r, 3)]", lambda x: x[1:3, 0, 2:5]),
    ],
)
def test_a_register_indexes_in_brackets(index: str, want: Callable[[Array], Array]) -> None:
    x = normal(4, 3, 8)
    expected = want(x)
    text = f"""
out = nl.ndarray({expected.shape}, dtype=nl.float32, buffer=nl.shared_hbm)
tile, r = nl.load(x), nisa.register_alloc()
nisa.register_load(r, nl.load(n))
nisa.dma_copy(dst=out, src={index})
return out
"""
    got = run_kernel(text, {"x": x, "n": column(2)}).outputs[0]
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("index", "limit"),
    [("x[:, r]", "0 to 2"), ("x[:, nl.ds(r, 2)]", "0 to 1"), ("x[nl.ds(r, 2)]", "0 to 2")],
)
def test_a_register_in_brackets_stays_in_its_tensor(index: str, limit: str) -> None:
    text = f"""
out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
r = nisa.register_alloc()
nisa.register_load(r, nl.load(n))
nl.load({index})
nisa.dma_copy(dst=out, src=x)
return out
"""
    finding = failed(text, {"x": normal(4, 3, 8), "n": column(3)})
    assert (finding.code, finding.limit) == ("NK202", limit)


# Read, change, write.

COMPUTE = """
out = nl.ndarray((8, 6), dtype=nl.float32, buffer=nl.shared_hbm)
full = nl.ndarray((8, 6), dtype=nl.float32)
nisa.memset(dst=full, value=9.0)
nisa.dma_copy(dst=out, src=full)
rows = nl.load(n)
new = nl.load(x)
place = out.vector_select(0, rows)
nisa.dma_compute(dst=place, srcs=[place, new], reduce_op=nl.add, oob_mode=nisa.oob_mode.skip)
return out
"""


def test_rows_are_added_to_in_place() -> None:
    arrays = {"x": normal(3, 6), "n": column(6, 8, 3)}
    got = run_kernel(COMPUTE, arrays).outputs[0]
    want = np.full((8, 6), 9, np.float32)
    want[[6, 3]] += arrays["x"][[0, 2]]
    assert got.tolist() == want.tolist()


def test_gathered_rows_are_added_to_a_tile() -> None:
    text = """
out = nl.ndarray((3, 6), dtype=nl.float32, buffer=nl.shared_hbm)
rows = nl.load(n)
tile = nl.ndarray((3, 6), dtype=nl.float32)
nisa.memset(dst=tile, value=9.0)
nisa.dma_compute(dst=tile, srcs=[tile, x.vector_select(0, rows)], reduce_op=nl.add,
                 oob_mode=nisa.oob_mode.skip)
nisa.dma_copy(dst=out, src=tile)
return out
"""
    x = normal(8, 6)
    got = run_kernel(text, {"x": x, "n": column(6, 8, 3)}).outputs[0]
    want = np.full((3, 6), 9, np.float32)
    want[[0, 2]] += x[[6, 3]]
    assert got.tolist() == want.tolist()


def test_rows_that_repeat_are_refused() -> None:
    finding = failed(COMPUTE, {"x": normal(3, 6), "n": column(6, 3, 6)})
    assert (finding.code, "unique_indices" in finding.limit) == ("NK308", True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("srcs=[place, new]", "srcs=[new, new]"),
        ("srcs=[place, new]", "srcs=[place, place]"),
        ("srcs=[place, new]", "srcs=[place, new, new]"),
        ("srcs=[place, new]", "srcs=[x.vector_select(0, rows), new]"),
    ],
)
def test_other_forms_of_dma_compute_by_rows_are_refused(old: str, new: str) -> None:
    with pytest.raises(KernelError, match="NK308"):
        compiled(COMPUTE.replace(old, new), {"x": normal(3, 6), "n": column(0, 1, 2)})


# Elements by lists of indices.


def snake(lists: Array, group: int) -> Array:
    """A tile of indices in which each group of partitions holds its list."""
    tiles = [row.reshape(-1, group).T for row in lists]
    return np.concatenate(tiles)


@pytest.mark.parametrize("partitions", [16, 64])
def test_indirect_gathers_elements_for_each_group_of_partitions(partitions: int) -> None:
    text = """
out = nl.ndarray((x.shape[0], 32), dtype=nl.float32, buffer=nl.shared_hbm)
index, tile = nl.load(n), nl.load(x)
got = nl.ndarray((x.shape[0], 32), dtype=nl.float32)
nisa.tensor_copy(dst=got, src=tile.indirect(index, num_elem=32))
nisa.dma_copy(dst=out, src=got)
return out
"""
    lists = rng_for(0, "lists").integers(0, 40, (partitions // 16, 32)).astype(np.uint16)
    x = normal(partitions, 40)
    got = run_kernel(text, {"x": x, "n": snake(lists, 16)}, target=TRN3).outputs[0]
    assert got.tolist() == np.take_along_axis(x, np.repeat(lists, 16, 0), 1).tolist()


def test_indirect_scatters_elements() -> None:
    text = """
out = nl.ndarray((16, 40), dtype=nl.float32, buffer=nl.shared_hbm)
index, tile = nl.load(n), nl.load(x)
got = nl.zeros((16, 40), dtype=nl.float32)
nisa.tensor_scalar(dst=got.indirect(index), data=tile, op0=nl.multiply, operand0=2.0)
nisa.dma_copy(dst=out, src=got)
return out
"""
    order = rng_for(0, "order").permutation(40)[:32].astype(np.int32)
    x = normal(16, 32)
    got = run_kernel(text, {"x": x, "n": snake(order[None], 16)}, target=TRN3).outputs[0]
    want = np.zeros((16, 40), np.float32)
    want[:, order] = 2 * x
    assert got.tolist() == want.tolist()


def test_the_tensor_engine_has_groups_of_32() -> None:
    text = """
out = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.shared_hbm)
index, a, b = nl.load(n), nl.load(x), nl.load(y)
p = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(dst=p, stationary=a, moving=b.indirect(index))
r = nl.ndarray((32, 32), dtype=nl.float32)
nisa.tensor_copy(dst=r, src=p)
nisa.dma_copy(dst=out, src=r)
return out
"""
    order = rng_for(0, "order").permutation(32).astype(np.uint16)
    bf16 = DType.BFLOAT16.numpy_dtype
    x, y = normal(32, 32).astype(bf16), normal(32, 32, name="y").astype(bf16)
    got = run_kernel(text, {"x": x, "y": y, "n": snake(order[None], 32)}, target=TRN3).outputs[0]
    want = x.astype(np.float32).T @ y.astype(np.float32)[:, order]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_an_element_out_of_bounds_stops_the_run() -> None:
    text = """
out = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.shared_hbm)
index, tile = nl.load(n), nl.load(x)
got = nl.ndarray((16, 16), dtype=nl.float32)
nisa.tensor_copy(dst=got, src=tile.indirect(index))
nisa.dma_copy(dst=out, src=got)
return out
"""
    n = np.arange(16).reshape(16, 1).astype(np.int32)
    n[3] = 20
    finding = failed(text, {"x": normal(16, 20), "n": n}, target=TRN3)
    assert (finding.code, finding.got, finding.limit) == ("NK202", "20", "0 to 19")


def test_more_indices_than_a_group_has_are_refused() -> None:
    text = """
out = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.shared_hbm)
index, tile = nl.load(n), nl.load(x)
got = nl.ndarray((32, 32), dtype=nl.float32)
nisa.tensor_copy(dst=got, src=tile.indirect(index))
nisa.dma_copy(dst=out, src=got)
return out
"""
    with pytest.raises(KernelError, match="each group of 16"):
        compiled(text, {"x": normal(32, 40), "n": np.zeros((32, 1), np.int32)}, target=TRN3)
