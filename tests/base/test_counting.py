"""Nouns follow their number."""

from nki_agent.base.counting import count_of


def test_noun_follows_its_number() -> None:
    assert [count_of(n, "attempt") for n in (0, 1, 2)] == ["0 attempts", "1 attempt", "2 attempts"]
    assert count_of(3, "reply", "replies") == "3 replies"
