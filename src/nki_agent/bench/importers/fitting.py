"""Scales a draft until a CPU can judge kernels for it, and proves that it is fit.

Law: the largest size is halved until the task fits; a size whose half breaks the reference, or
makes nothing smaller, stays. Halves keep powers of two, and with them most divisibility; the
reference says whether it holds. What no scaling brings below the limits is unfit, and says so.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from nki_agent.bench.importers.draft import Draft
from nki_agent.bench.importers.foreign import Foreign
from nki_agent.bench.importers.messages import Measured, Proved, Refused, TooLarge
from nki_agent.bench.importers.sizes import EQUALS, PART, Template, halve

LIMIT_ELEMS: Final = 2**23
"""Elements of all tensors of a task at its dev sizes."""
FLOPS_MAX: Final = 2**31
"""Of the matmuls of one call: some seconds for the twenty calls of a lint and a verdict."""
WORK_FACTOR: Final = 32
"""Elements that operations may write in one call, as a multiple of the limit."""
STEPS_MAX: Final = 160
FINDINGS_MAX: Final = 4
"""Of one task's lint; a deep network has one for each weight."""
RETRIES_MAX: Final = 4
"""Times that a task which fits but runs out of time or memory is halved further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The end of a draft: a text that is fit, or reasons."""

    text: str = ""
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def is_fit(self) -> bool:
        """Whether kernels can be judged for it."""
        return not self.reasons


@dataclass(slots=True, kw_only=True)
class Search:
    """One template on its way down: the sizes so far, and those that stay."""

    draft: Draft
    template: Template
    foreign: Foreign
    limit_elems: int
    sizes: dict[str, int] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    last: Measured | TooLarge | None = None
    steps: int = 0
    has_data: bool = False
    """Whether the reference runs only on values."""

    def begin(self) -> Refused | None:
        """Measure at the suite's own sizes."""
        self.sizes = dict(self.template.sizes())
        found = self._measure(self.sizes)
        if isinstance(found, Refused):
            self.has_data = True
            found = self._measure(self.sizes)
        if isinstance(found, Refused):
            return found
        self.last = found
        return None

    @property
    def text(self) -> str:
        """The text at the sizes so far."""
        return self.template.render(self.sizes)

    def shrink(self) -> bool:
        """Halve sizes until the task fits; whether it does."""
        while not self._fits():
            if not self.step():
                return False
        return True

    def step(self) -> bool:
        """Halve one size; False where none is left."""
        while self.steps < STEPS_MAX and (name := self._largest()) is not None:
            self.steps += 1
            smaller = halve(name, self.sizes[name])
            assert smaller is not None
            tried = {**self.sizes, name: smaller}
            found = self._measure(tried)
            if isinstance(found, Refused):
                self._give_up(name)
            elif _is_less(found, self.last):
                self.sizes, self.last = tried, found
                return True
            else:
                self.fixed.add(name)
        return False

    def changes(self) -> tuple[str, ...]:
        """What was scaled, in words."""
        original = self.template.sizes()
        found = []
        for name, value in self.sizes.items():
            whole, _, part = name.partition(PART)
            before = original[whole]
            if value != before:
                label = part or name.partition(EQUALS)[0]
                found.append(f"scaled {before} to {value} in `{label}`")
        return tuple(found)

    def why_too_large(self) -> str:
        """The figure that stays over its limit."""
        match self.last:
            case Measured(elems=elems) if elems > self.limit_elems:
                return (
                    f"its tensors have {elems:,} elements, over the limit of {self.limit_elems:,}"
                )
            case Measured(flops=flops) if flops > FLOPS_MAX:
                return f"one call takes {flops:,} FLOPs, over the limit of {FLOPS_MAX:,}"
            case Measured(work_elems=work):
                return f"one call writes {work:,} elements, over {self._work_max:,}"
            case TooLarge(reason=reason):
                return reason
            case None:
                return "it was not measured"

    @property
    def _work_max(self) -> int:
        return WORK_FACTOR * self.limit_elems

    def _fits(self) -> bool:
        found = self.last
        return (
            isinstance(found, Measured)
            and found.elems <= self.limit_elems
            and found.flops <= FLOPS_MAX
            and found.work_elems <= self._work_max
        )

    def _largest(self) -> str | None:
        names = [n for n, v in self.sizes.items() if n not in self.fixed and halve(n, v)]
        return max(names, key=lambda name: self.sizes[name], default=None)

    def _give_up(self, name: str) -> None:
        """Try the places of a size one by one, if they never moved together; else it stays."""
        self.fixed.add(name)
        parts = self.template.split(name)
        if self.sizes[name] == self.template.sizes().get(name):
            self.sizes |= parts

    def _measure(self, sizes: Mapping[str, int]) -> Measured | TooLarge | Refused:
        return self.foreign.measure(
            self.template.render(sizes),
            name=f"{self.draft.id}.py",
            limit_elems=self.limit_elems,
            has_data=self.has_data,
        )


def _is_less(found: Measured | TooLarge, before: Measured | TooLarge | None) -> bool:
    """Whether a half made the task smaller; one that cannot be measured counts as smaller."""
    if isinstance(found, TooLarge):
        return not isinstance(before, Measured)
    if isinstance(before, Measured) and found.is_whole == before.is_whole:
        return any(new < old for new, old in zip(found.figures, before.figures, strict=True))
    return True


def fit(draft: Draft, foreign: Foreign, *, limit_elems: int) -> Fitted:
    """Try the draft's templates in turn; the first that fits is proven."""
    if draft.problem:
        return Fitted(reasons=(draft.problem,), notes=draft.notes)
    reason = ""
    for template in draft.templates:
        search = Search(draft=draft, template=template, foreign=foreign, limit_elems=limit_elems)
        refused = search.begin()
        if refused is not None:
            return Fitted(reasons=(refused.reason,), notes=draft.notes)
        if search.shrink():
            return _prove(search)
        reason = reason or search.why_too_large()
    return Fitted(
        reasons=(f"too large for a CPU, and no smaller sizes keep it working: {reason}",),
        notes=draft.notes,
    )


def _prove(search: Search) -> Fitted:
    draft = search.draft
    for _ in range(RETRIES_MAX):
        text = search.text
        found = search.foreign.prove(text, name=f"{draft.id}.py")
        fitted = Fitted(text=text, changes=search.changes(), notes=draft.notes)
        match found:
            case Proved():
                return _with_proof(fitted, found)
            case Refused(reason=reason):
                return replace(fitted, reasons=(reason,))
            case TooLarge(reason=reason) if not search.step():
                return replace(fitted, reasons=(reason,))
            case TooLarge():
                pass
    return Fitted(reasons=("it runs out of time or memory at ever smaller sizes",))


def _with_proof(fitted: Fitted, proved: Proved) -> Fitted:
    changes = fitted.changes
    if proved.num_weights:
        plural = "s are arguments" if proved.num_weights > 1 else " is an argument"
        changes += (f"{proved.num_weights} weight{plural} of the kernel",)
    reasons = proved.findings[:FINDINGS_MAX]
    if more := len(proved.findings) - len(reasons):
        reasons += (f"and {more} more like these",)
    return replace(fitted, changes=changes, notes=(*fitted.notes, *proved.notes), reasons=reasons)


def is_python(source: str) -> str:
    """Why the text is not Python; empty where it is."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" at line {error.lineno}" if isinstance(error, SyntaxError) else ""
        return f"not Python{line}: {error}"
    return ""
