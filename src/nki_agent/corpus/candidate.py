"""A task text that was drawn from a grammar, before anything has looked at it."""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.base.hashes import hash_text
from nki_agent.corpus.record import BoundKind, Family

ID_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A whole task file and where in the grammar it comes from."""

    id: str
    source: str
    family: Family
    pattern: str
    operators: tuple[str, ...]
    """Names in the grammar, in the order of the computation."""
    level: int
    index: int
    """Its number among those of its pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A candidate that is fit to be a task, and what was measured of it."""

    candidate: Candidate
    rank: int
    """The highest rank of a tensor."""
    dtype: str
    """Of the first input."""
    tolerance: str
    bound: BoundKind
    bound_ns: float
    """The bound on the latency at the perf shapes on trn2."""


def name_candidate(family: Family, pattern: str, source: str) -> str:
    """`c-<family>-<pattern>-<six digits of the source's hash>`."""
    digits = hash_text(source)[:ID_DIGITS]
    slug = pattern.removeprefix(f"{family.value}-")
    return f"c-{family.value}-{slug}-{digits}"
