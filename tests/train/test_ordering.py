"""Batches of like lengths: nothing is lost, little is padding, chance decides the order."""

from __future__ import annotations

from nki_agent.base.seeds import rng_for
from nki_agent.train.ordering import order_by_length

LENGTHS = [int(n) for n in rng_for(0, "lengths").integers(1, 300, size=1000)]
BATCH = 10


def order(seed: int, *, batches: int = 100) -> list[int]:
    rng = rng_for(seed, "order")
    return order_by_length(LENGTHS, batch=BATCH, batches=batches, rng=rng)


def padding(places: list[int]) -> int:
    batches = [places[i : i + BATCH] for i in range(0, len(places), BATCH)]
    return sum(max(LENGTHS[p] for p in batch) - LENGTHS[q] for batch in batches for q in batch)


def test_every_dialogue_comes_once_an_epoch() -> None:
    assert sorted(order(1)) == list(range(1000))
    twice = order(1, batches=200)
    assert twice[:1000] == order(1)
    assert twice[:1000] != twice[1000:]


def test_less_than_a_quarter_of_the_padding_of_a_plain_shuffle_is_left() -> None:
    shuffled = [int(p) for p in rng_for(1, "plain").permutation(1000)]
    assert padding(order(1)) < padding(shuffled) / 4


def test_rows_that_fill_no_batch_are_all_there_is() -> None:
    rng = rng_for(0, "few")
    assert sorted(order_by_length([3, 1, 2], batch=10, batches=1, rng=rng)[:3]) == [0, 1, 2]
