"""Lines of kernels that are too long are broken where a reader would break them."""

from __future__ import annotations

import pytest

from nki_agent.builtin.text import Source

LONG = "first_of_many_rows"


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        (
            f"offset=({LONG} - 1) * {LONG} * {LONG} + {LONG} * ({LONG} + 1) + c0,",
            ["offset=(", f"    ({LONG} - 1) * {LONG} * {LONG}", f"    + {LONG} * ({LONG} + 1)",
             "    + c0", "),"],
        ),
        (
            f"src=x_rows[{LONG} : {LONG} + rows, {LONG} * 2 : {LONG} * 2 + cols, 0 : {LONG}],",
            ["src=x_rows[", f"    {LONG} : {LONG} + rows,", f"    {LONG} * 2 : {LONG} * 2 + cols,",
             f"    0 : {LONG},", "],"],
        ),
    ],
)  # fmt: skip
def test_long_line_is_broken_at_its_terms_or_slices(line: str, broken: list[str]) -> None:
    source = Source()
    source.add(line)
    assert source.lines == broken
