"""Flows: what a pattern's lines may be."""

from __future__ import annotations

import pytest

from nki_agent.corpus.flow import names_called, read_flow


def test_flow_gives_operators_in_the_order_of_the_computation() -> None:
    lines = read_flow("h = activation(linear(x))\na, b = halves(h)\ny = add(a, bias?(b))")
    assert list(names_called(lines)) == ["linear", "activation", "halves", "bias", "add"]


def test_flow_step_with_a_question_mark_is_optional() -> None:
    (line,) = read_flow("y = activation?(linear(x))")
    assert line.value.optional
    inner = line.value.operands[0]
    assert not isinstance(inner, str)
    assert not inner.optional


@pytest.mark.parametrize(
    "text",
    ["y = x", "y = x + z", "f(x)", "y = f(x, 3)", "y = f(x, axis=1)", "y = (", "y = a.b(x)"],
)
def test_flow_that_is_no_call_of_operators_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_flow(text)
