"""What an optimisation says of its steps."""

import pytest

from nki_agent.builtin.choices import OPTIONS, Value
from nki_agent.corpus.speeding import say_change

SWITCHES = [name for name, values in OPTIONS.items() if any(value is False for value in values)]
EVERY = [(name, value) for name, values in OPTIONS.items() for value in values]


@pytest.mark.parametrize(("name", "value"), EVERY)
def test_every_choice_of_a_search_is_said_in_words(name: str, value: Value) -> None:
    said = say_change(name, value)
    assert said
    assert "{" not in said
    assert str(value) not in ("True", "False") or str(value) not in said


@pytest.mark.parametrize("name", SWITCHES)
def test_a_choice_and_its_contrary_are_said_differently(name: str) -> None:
    assert say_change(name, value=True) != say_change(name, value=False)
