"""NK207: reads of bytes that nothing has written."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nki_agent.base.diagnostic import Severity
from nki_agent.chip.spec import Target, load_chip
from nki_agent.memory.columns import Columns
from nki_agent.memory.rules.nk207_unwritten_read import find_unwritten_reads
from tests.memory.traced import HEAD_LINES, place_body, trace_body

ROWS, COLS = 16, 24


def test_tile_that_nothing_wrote_is_named() -> None:
    placed = place_body(
        """
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((128, 8), dtype=nl.float32, name="sums")
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=o, src=t)
        return o
        """,
        (128, 8),
    )
    (finding,) = placed.findings
    assert (finding.code, finding.severity) == ("NK207", Severity.ERROR)
    assert "`sums` [128, 8] float32" in finding.what
    assert "1024 elements" in finding.what
    assert "all that it reads" in finding.what
    assert finding.where[-1].line == HEAD_LINES + 4


def test_tail_rows_that_nothing_wrote_are_counted_and_named() -> None:
    placed = place_body(
        """
        o = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((128, 8), dtype=nl.float32)
        nisa.dma_copy(dst=t[0:100], src=a)
        nisa.dma_copy(dst=o, src=t)
        return o
        """,
        (100, 8),
    )
    (finding,) = placed.findings
    assert finding.severity is Severity.ERROR
    assert "reads 224 elements" in finding.what
    assert "partitions 100..127, elements 0..7 of each" in finding.what


TAIL = """
    o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 64), dtype=nl.float32)
    nisa.dma_copy(dst=t[0:100, 0:40], src=a)
    {compute}
    nisa.dma_copy(dst=o[{stored}:100], src=t[{stored}:100, 0:40])
    return o
"""


def severity_of(compute: str, *, stored: int = 0) -> Severity | None:
    placed = place_body(TAIL.format(compute=compute, stored=stored), (100, 40))
    severities = {f.severity for f in placed.findings}
    assert {f.code for f in placed.findings} <= {"NK207"}
    assert len(severities) <= 1
    return severities.pop() if severities else None


def test_garbage_that_is_computed_and_thrown_away_is_a_warning() -> None:
    compute = "nisa.activation(dst=t, op=nl.exp, data=t)"
    assert severity_of(compute) is Severity.WARNING


def test_garbage_that_a_row_sum_takes_in_is_an_error() -> None:
    compute = """s = nl.ndarray((128, 1), dtype=nl.float32)
    nisa.tensor_reduce(dst=s, op=nl.add, data=t, axis=1)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=s)"""
    assert severity_of(compute) is Severity.ERROR


def test_garbage_that_an_accumulator_carries_on_is_an_error() -> None:
    compute = """s = nl.ndarray((128, 1), dtype=nl.float32)
    u = nl.ndarray((128, 64), dtype=nl.float32)
    nisa.activation(dst=u, op=nl.exp, data=t, reduce_op=nl.add,
                    reduce_cmd=nisa.reduce_cmd.reset_reduce)
    nisa.activation(dst=u[0:100, 0:40], op=nl.exp, data=t[0:100, 0:40], reduce_op=nl.add,
                    reduce_res=s[0:100], reduce_cmd=nisa.reduce_cmd.reduce)
    nisa.tensor_scalar(dst=t[0:100], data=t[0:100], op0=nl.multiply, operand0=s[0:100])"""
    assert severity_of(compute) is Severity.ERROR


def test_garbage_columns_of_a_matmul_stay_columns() -> None:
    matmul = """p = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=t[0:100], moving=t[0:100])
    u = nl.ndarray((64, 64), dtype=nl.float32)
    nisa.tensor_copy(dst=u, src=p)
    nisa.dma_copy(dst=o[0:40], src=u[{rows}, 0:40])"""
    assert severity_of(matmul.format(rows="0:40"), stored=40) is Severity.WARNING
    assert severity_of(matmul.format(rows="24:64"), stored=40) is Severity.ERROR


def test_garbage_rows_in_the_contraction_of_a_matmul_are_an_error() -> None:
    compute = """p = nl.ndarray((40, 40), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=p, stationary=t[:, 0:40], moving=t[:, 0:40])
    u = nl.ndarray((40, 40), dtype=nl.float32)
    nisa.tensor_copy(dst=u, src=p)
    nisa.dma_copy(dst=o[0:40], src=u)"""
    assert severity_of(compute, stored=40) is Severity.ERROR


@pytest.mark.parametrize(("last_row", "severity"), [(99, Severity.WARNING), (100, Severity.ERROR)])
def test_garbage_is_followed_in_every_turn_of_an_unrolled_loop(
    last_row: int, severity: Severity
) -> None:
    placed = place_body(
        f"""
        o = nl.ndarray((4, 101, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        for i in range(4):
            t = nl.ndarray((128, 8), dtype=nl.float32)
            nisa.dma_copy(dst=t[0:100], src=a)
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=o[i, 0:100], src=t[0:100])
            row = 99 if i < 3 else {last_row}
            nisa.dma_copy(dst=o[i, 100:101], src=t[row:row + 1])
        return o
        """,
        (100, 8),
    )
    assert {(f.code, f.severity) for f in placed.findings} == {("NK207", severity)}


def test_transposed_garbage_is_followed() -> None:
    compute = """p = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=p, data=t)
    u = nl.ndarray((64, 128), dtype=nl.float32)
    nisa.tensor_copy(dst=u, src=p)
    nisa.dma_copy(dst=o[0:40], src=u[0:40, {columns}])"""
    shown = compute.format(columns="0:40")
    assert severity_of(shown, stored=40) is Severity.WARNING
    hidden = compute.format(columns="80:120")
    assert severity_of(hidden, stored=40) is Severity.ERROR


def test_matmul_into_fresh_psum_reads_nothing() -> None:
    placed = place_body(
        """
        o = nl.ndarray((40, 40), dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((100, 40), dtype=nl.float32)
        nisa.dma_copy(dst=t, src=a)
        p = nl.ndarray((40, 40), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=p, stationary=t, moving=t)
        nisa.nc_matmul(dst=p, stationary=t, moving=t)
        u = nl.ndarray((40, 40), dtype=nl.float32)
        nisa.tensor_copy(dst=u, src=p)
        nisa.dma_copy(dst=o, src=u)
        return o
        """,
        (100, 40),
    )
    assert placed.codes == []


Window = tuple[int, int, int, int]


@st.composite
def windows(draw: st.DrawFn) -> Window:
    row, col = draw(st.integers(0, ROWS - 1)), draw(st.integers(0, COLS - 1))
    return row, draw(st.integers(row + 1, ROWS)), col, draw(st.integers(col + 1, COLS))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), windows(), st.integers(1, 3)), min_size=1, max_size=12),
)
def test_every_byte_is_judged_as_a_mask_of_elements_would(
    steps: list[tuple[bool, Window, int]],
) -> None:
    lines = [
        "o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)",
        f"t = nl.ndarray(({ROWS}, {COLS}), dtype=nl.float32)",
    ]
    written = np.zeros((ROWS, COLS), np.bool_)
    expected: list[int] = []
    for number, (is_read, (r0, r1, c0, c1), step) in enumerate(steps):
        index = (slice(r0, r1), slice(c0, c1, step))
        text = f"[{r0}:{r1}, {c0}:{c1}:{step}]"
        if is_read:
            lines.append(f"nisa.dma_copy(dst=o{text}, src=t{text})")
            if not written[index].all():
                expected.append(number)
        else:
            lines.append(f"nisa.dma_copy(dst=t{text}, src=a{text})")
            written[index] = True
    program = trace_body("\n".join([*lines, "return o"]), (ROWS, COLS))
    columns = Columns(program, load_chip(Target.TRN2))
    found = find_unwritten_reads(columns)
    assert [int(columns.time[read.row]) for read in found] == expected


def test_garbage_that_a_dma_transposes_is_followed() -> None:
    body = """
        o = nl.ndarray((40, 100), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        f = nl.ndarray((128, 64), dtype=nl.float32)
        nisa.dma_copy(dst=f[0:100, 0:40], src=a)
        t = nl.ndarray((128, 64), dtype=nl.bfloat16)
        nisa.tensor_copy(dst=t, src=f)
        u = nl.ndarray((64, 128), dtype=nl.bfloat16)
        nisa.dma_transpose(dst=u, src=t)
        nisa.dma_copy(dst=o, src=u[0:40, {first}:{first} + 100])
        return o
    """
    kept = place_body(body.format(first=0), (100, 40)).findings
    assert [(f.code, f.severity) for f in kept] == [("NK207", Severity.WARNING)]
    shifted = place_body(body.format(first=1), (100, 40)).findings
    assert {(f.code, f.severity) for f in shifted} == {("NK207", Severity.ERROR)}


def test_scratch_in_hbm_that_nothing_wrote_is_refused() -> None:
    placed = place_body(
        """
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        w = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(dst=w[0:8], src=a[0:8])
        nisa.dma_copy(dst=o, src=w)
        return o
        """,
        (16, 8),
    )
    (finding,) = placed.findings
    assert finding.code == "NK207"
    assert finding.what.endswith("from element 64 on")


DOUBLE_ROW = """
o = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.shared_hbm)
w = nl.ndarray((128, 2, 16), dtype=nl.float8_e4m3)
m = nl.zeros((128, 2, 32), dtype=nl.float8_e4m3)
nisa.memset(dst=w[:, :, 0:{written}], value=0.0)
p = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(p, w, m, perf_mode=nisa.matmul_perf_mode.double_row)
t = nl.ndarray((16, 32), dtype=nl.float32)
nisa.tensor_copy(dst=t, src=p)
nisa.dma_copy(dst=o[0:{stored}, :], src=t[0:{stored}, :])
nisa.dma_copy(dst=o[{stored}:16, :], src=t[0:{rest}, :])
return o
"""


@pytest.mark.parametrize(("stored", "severity"), [(8, Severity.WARNING), (12, Severity.ERROR)])
def test_unwritten_columns_of_a_double_row_matmul_reach_their_rows_only(
    stored: int, severity: Severity
) -> None:
    text = DOUBLE_ROW.format(written=8, stored=stored, rest=16 - stored)
    found = [f for f in place_body(text, (128, 8)).findings if f.code == "NK207"]
    assert [f.severity for f in found] == [severity]
