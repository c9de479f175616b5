"""NK208: results that are not fully written."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from nki_agent.program.records import Access
from tests.memory.traced import Placed, place_body

ROWS, COLS = 16, 24


def store(*targets: str, shape: tuple[int, ...] = (200, 96)) -> Placed:
    lines = ["o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)"]
    lines += [f"nisa.dma_copy(dst=o{t}, src=a{t})" for t in targets]
    return place_body("\n".join([*lines, "return o"]), shape)


def test_missing_rows_are_named() -> None:
    (finding,) = store("[0:128]").findings
    assert finding.code == "NK208"
    assert "6912 of 19200 elements of result 0 [200, 96]" in finding.what
    assert finding.what.endswith("rows 128..199 of 200")


def test_missing_columns_are_named() -> None:
    (finding,) = store("[:, 0:64]").findings
    assert finding.what.endswith("rows 0..199 of 200, columns 64..95 of 96")


def test_single_missing_element_is_found() -> None:
    (finding,) = store("[0:150]", "[151:200]", "[150:151, 0:40]", "[150:151, 41:96]").findings
    assert "1 of 19200 elements" in finding.what
    assert finding.what.endswith("rows 150..150 of 200, columns 40..40 of 96")


def test_first_missing_index_is_given_where_rows_and_columns_say_too_much() -> None:
    (finding,) = store("[0:100, 0:50]", "[100:200, 50:96]").findings
    assert finding.what.endswith("rows 0..199 of 200, the first at index [0, 50]")


def test_result_that_is_written_whole_in_pieces_is_good() -> None:
    assert store("[0:128, 0:50]", "[128:200, 0:50]", "[:, 50:96]").codes == []


def test_result_that_nothing_writes_is_refused() -> None:
    (finding,) = place_body(
        "return nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)", (4, 4)
    ).findings
    assert finding.code == "NK208"
    assert "never written" in finding.what


def test_one_dimensional_result_names_its_elements() -> None:
    (finding,) = store("[0:60]", shape=(100,)).findings
    assert finding.what.endswith("elements 60..99 of 100")


@pytest.mark.parametrize(("rows", "codes"), [(8, []), (7, ["NK208"])])
def test_argument_that_is_an_output_must_be_written(rows: int, codes: list[str]) -> None:
    placed = place_body(
        f"""
        t = nl.ndarray((8, 8), dtype=nl.float32)
        nisa.memset(dst=t, value=1.0)
        nisa.dma_copy(dst=a[0:{rows}], src=t[0:{rows}])
        return a
        """,
        (8, 8),
        access=Access.WRITE,
    )
    assert placed.codes == codes


@st.composite
def windows(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    row, col = draw(st.integers(0, ROWS - 1)), draw(st.integers(0, COLS - 1))
    ends = draw(st.integers(row + 1, ROWS)), draw(st.integers(col + 1, COLS))
    return row, ends[0], col, ends[1], draw(st.integers(1, 3))


@settings(max_examples=60, deadline=None)
@given(st.lists(windows(), min_size=1, max_size=8))
def test_count_of_missing_elements_is_exact(pieces: list[tuple[int, int, int, int, int]]) -> None:
    written = np.zeros((ROWS, COLS), np.bool_)
    targets = []
    for r0, r1, c0, c1, step in pieces:
        targets.append(f"[{r0}:{r1}:{step}, {c0}:{c1}:{step}]")
        written[r0:r1:step, c0:c1:step] = True
    placed = store(*targets, shape=(ROWS, COLS))
    missing = int((~written).sum())
    expected = [f"{missing} of {written.size} elements"] if missing else []
    assert [f.what.split(" of result")[0] for f in placed.findings] == expected
