"""Quotas: what is taken, and that the order of what comes decides nothing."""

from __future__ import annotations

import itertools
from collections import Counter

from nki_agent.corpus.candidate import Candidate, Passed
from nki_agent.corpus.quotas import BOUND_SHARE, FAMILY_MOST, choose, places
from nki_agent.corpus.record import BoundKind, Family, Reason

TOTAL = 400
NUMBER = 900


def make_passed(number: int, *, family: Family, bound: BoundKind, level: int) -> Passed:
    candidate = Candidate(
        id=f"c-{family}-{number}",
        source="",
        family=family,
        pattern=f"{family}-{number % 7}",
        operators=(),
        level=level,
        index=number,
    )
    return Passed(
        candidate=candidate,
        rank=2 + number % 4,
        dtype="float32",
        tolerance="F2",
        bound=bound,
        bound_ns=1e5,
    )


def make_pool() -> list[Passed]:
    """Memory is most frequent, and every family is there."""
    kinds = itertools.cycle(
        [BoundKind.MEMORY, BoundKind.MEMORY, BoundKind.MATMUL, BoundKind.VECTOR]
    )
    families = itertools.cycle(Family)
    return [
        make_passed(n, family=next(families), bound=next(kinds), level=1 + n % 3)
        for n in range(NUMBER)
    ]


def test_choice_has_its_share_of_each_bound() -> None:
    chosen = choose(make_pool(), root=0, total=TOTAL).chosen
    counts = Counter(t.bound for t in chosen)
    assert len(chosen) == TOTAL
    assert min(counts.values()) >= BOUND_SHARE * TOTAL


def test_choice_has_every_family_and_none_too_often() -> None:
    counts = Counter(t.candidate.family for t in choose(make_pool(), root=0, total=TOTAL).chosen)
    assert set(counts) == set(Family)
    assert max(counts.values()) <= FAMILY_MOST * TOTAL + 1


def test_choice_does_not_depend_on_the_order() -> None:
    pool = make_pool()
    assert choose(pool, root=0, total=TOTAL) == choose(reversed(pool), root=0, total=TOTAL)


def test_choice_depends_on_the_root() -> None:
    pool = make_pool()
    assert choose(pool, root=0, total=TOTAL) != choose(pool, root=1, total=TOTAL)


def test_choice_says_of_everything_else_which_limit_it_met() -> None:
    choice = choose(make_pool(), root=0, total=TOTAL)
    ids = {t.candidate.id for t in choice.chosen}
    left = {r.id for r in choice.rejections}
    assert ids.isdisjoint(left)
    assert len(ids) + len(left) == NUMBER
    assert {r.reason for r in choice.rejections} == {Reason.QUOTA}
    assert all(r.detail for r in choice.rejections)


def test_choice_of_a_small_pool_takes_what_its_limits_allow() -> None:
    pool = make_pool()[:60]
    chosen = choose(pool, root=0, total=TOTAL).chosen
    assert len(chosen) == len(pool)


def test_family_and_bound_of_one_name_are_counted_apart() -> None:
    # `matmul` is a family and a kind of bound.
    pool = [
        make_passed(n, family=family, bound=BoundKind.MATMUL, level=1 + n % 3)
        for n in range(600)
        for family in (Family.MATMUL, Family.BLOCK, Family.CONV, Family.ATTENTION)
    ]
    counts = Counter(t.candidate.family for t in choose(pool, root=0, total=TOTAL).chosen)
    assert counts[Family.MATMUL] == counts[Family.BLOCK] == places(FAMILY_MOST, TOTAL)
