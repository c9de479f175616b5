"""Searches for faster kernels: one choice after the other is changed, and what is faster stays.

Law: the same results, seed and first choices give the same next draft; nothing else is remembered,
so that a search can be read from its history. A draft counts only once its values are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from nki_agent.base.seeds import rng_for
from nki_agent.builtin.choices import Choices, Value, list_changes

GAIN_MIN = 0.005
"""Part of the latency by which a draft must be faster to be worth another form of the kernel."""
ROUNDS_MAX = 4
"""Passes over all changes; each begins where the one before ended."""
DRAFTS_MAX = 1000
"""Drafts of a search that only time bounds."""
TURNS_AROUND = 12
"""Turns of an episode that are no drafts of the search: the first kernel, its repairs, the end."""


class SearchBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a search may go; what is reached first ends it."""

    drafts: int | None = None
    seconds: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked for."""
        return not self.drafts and not self.seconds

    @property
    def num_drafts(self) -> int:
        """Drafts at most."""
        if self.drafts is not None:
            return self.drafts
        return DRAFTS_MAX if self.seconds else 0

    @property
    def turns(self) -> int:
        """Turns that an episode needs for it: each draft is profiled, and verified if faster."""
        return 0 if self.is_empty else 2 * self.num_drafts + TURNS_AROUND


NO_BUDGET = SearchBudget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What is known of a kernel."""

    latency_us: float | None
    """At the perf shapes; None if it does not run."""
    limit: str = ""
    """What bounds it."""
    verdicts: tuple[bool, ...] = ()
    """Whether its values were right, in order."""
    is_close: bool = False
    """Whether they came near the limit of what is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Choices that were tried, the kernel that they give, and what became of it."""

    change: Mapping[str, Value]
    """What differs from the best one before it."""
    choices: Choices
    source: str
    result: Result | None
    """None until it is profiled."""

    @property
    def is_right(self) -> bool | None:
        """What the verdicts say; None while there is none.

        What rounds more than it must is not right by a hair: other inputs would show it.
        """
        if self.result is None or not self.result.verdicts:
            return None
        return all(self.result.verdicts) and not (self.choices.rounds and self.result.is_close)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A search as far as its results go."""

    tried: tuple[Draft, ...]
    """All drafts in order, the first kernel before them."""
    best: Draft
    """The fastest whose values are right."""
    open: Draft | None
    """To be profiled or verified next; None when the search is at its end."""


class Search:
    """Finds the way that a search takes through the choices."""

    def __init__(
        self, write: Callable[[Choices], str | None], *, first: Choices, seed: int, drafts: int
    ) -> None:
        """`write` makes the kernel of some choices, or None where there is none."""
        self._write = write
        self._first = first
        self._seed = seed
        self._drafts = drafts

    def follow(self, results: Mapping[str, Result]) -> Course:
        """Walk the way that these results of kernels, by source, lead."""
        source = self._write(self._first)
        assert source is not None
        best = Draft(change={}, choices=self._first, source=source, result=results[source])
        tried = [best]
        seen = {source}
        for number in range(ROUNDS_MAX):
            before = best
            for name, value in self._order(number, best.choices):
                if len(tried) > self._drafts:
                    return Course(tried=tuple(tried), best=best, open=None)
                if value == getattr(best.choices, name):
                    continue
                draft = self._draft(best, {name: value}, results, seen)
                if draft is None:
                    continue
                tried.append(draft)
                if draft.result is None or _is_open(draft, best):
                    return Course(tried=tuple(tried), best=best, open=draft)
                if _is_better(draft, best):
                    best = draft
            if best is before:
                break
        return Course(tried=tuple(tried), best=best, open=None)

    def _order(self, number: int, choices: Choices) -> Iterator[tuple[str, Value]]:
        """What gains most often first; later rounds in an order of chance."""
        changes = list(list_changes(choices))
        if number == 0:
            yield from changes
            return
        rng = rng_for(self._seed, "round", number)
        for index in rng.permutation(len(changes)):
            yield changes[index]

    def _draft(
        self,
        best: Draft,
        change: Mapping[str, Value],
        results: Mapping[str, Result],
        seen: set[str],
    ) -> Draft | None:
        """A kernel that was not tried before; None where the change makes no other."""
        choices = best.choices.but(change)
        source = self._write(choices)
        if source is None or source in seen:
            return None
        seen.add(source)
        return Draft(change=change, choices=choices, source=source, result=results.get(source))


def _is_faster(draft: Draft, best: Draft) -> bool:
    assert draft.result is not None
    assert best.result is not None
    if draft.result.latency_us is None:
        return False
    if best.result.latency_us is None:
        return True  # the first kernel does not run at the perf shapes
    return draft.result.latency_us < best.result.latency_us * (1 - GAIN_MIN)


def _is_open(draft: Draft, best: Draft) -> bool:
    """Whether it is worth a verdict that it has not got."""
    return draft.is_right is None and _is_faster(draft, best)


def _is_better(draft: Draft, best: Draft) -> bool:
    return draft.is_right is True and _is_faster(draft, best)


def describe_change(change: Mapping[str, Value]) -> str:
    """`col_block` 4096, in words for a log."""
    return ", ".join(f"`{name}` {value}" for name, value in change.items()) or "the first choices"


def describe_course(course: Course) -> str:
    """What was tried, and why the winner won."""
    first, best = course.tried[0].result, course.best.result
    assert first is not None
    assert best is not None
    lines = []
    for number, draft in enumerate(course.tried[1:], start=1):
        lines.append(
            f"{number}. {describe_change(draft.change)}: {_describe_result(draft, course)}"
        )
    tried = len(course.tried) - 1
    if course.best is course.tried[0] or not (first.latency_us and best.latency_us):
        head = f"{tried} other drafts were tried; none is right and faster than the first."
        head += f" It is bound by {first.limit}."
        return "\n".join((head, *lines))
    ratio = first.latency_us / best.latency_us
    head = (
        f"{tried} drafts were tried. The fastest has"
        f" {describe_change(course.best.choices.changes())}: {first.latency_us:.1f} →"
        f" {best.latency_us:.1f} µs at the perf shapes, {ratio:.2f} times as fast.\n"
        f"before: {first.limit}\nnow: {best.limit}"
    )
    return "\n".join((head, *lines))


def _describe_result(draft: Draft, course: Course) -> str:
    result = draft.result
    if result is None:
        return "not looked at"
    if result.latency_us is None:
        return f"does not run: {result.limit}"
    text = f"{result.latency_us:.1f} µs"
    if draft.is_right is False:
        text += ", but its values are wrong"
    return text + (", kept" if draft is course.best else "")
