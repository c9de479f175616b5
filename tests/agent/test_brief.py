"""Long text is summed up, never cut inside of a word, and what is left out is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_agent.agent.brief import FIELD_BYTES_MAX, sum_up, write_brief
from nki_agent.base.diagnostic import Diagnostic, Frame

BYTES_PER_TOKEN = 4


def test_short_text_stays() -> None:
    assert sum_up("free axis is 1024; split it") == "free axis is 1024; split it"


def test_long_text_ends_with_a_clause_and_a_count() -> None:
    text = "; ".join(f"element {n} is wrong" for n in range(100))
    found = sum_up(text, max_bytes=100)
    assert found == (
        "element 0 is wrong; element 1 is wrong; element 2 is wrong; element 3 is wrong;"
        " (384 words more)"
    )
    assert len(text.split()) == 16 + 384


def test_long_name_keeps_both_ends() -> None:
    found = sum_up(f"tensor `{'a' * 300}z` is too wide")
    assert found.startswith("tensor `aaa")
    assert "…" in found
    assert found.endswith("az` is too wide")


@given(st.text(max_size=2000))
def test_any_text_is_bounded(text: str) -> None:
    assert len(sum_up(text).encode()) <= FIELD_BYTES_MAX


@pytest.mark.parametrize("letter", ["x", "漢", "\N{REPLACEMENT CHARACTER}", "a b", "a; "])
def test_worst_diagnostic_is_bounded(letter: str) -> None:
    text = letter * 5000
    frames = tuple(Frame(text, line, text) for line in range(32))
    worst = Diagnostic(code="NK303", what=text, got=text, limit=text, hint=text, where=frames)
    brief = write_brief(worst)
    assert len(brief.encode()) / BYTES_PER_TOKEN <= 1200
    assert "and 29 more calls around it" in brief
