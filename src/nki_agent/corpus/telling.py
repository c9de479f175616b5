"""What an assistant says before a call: what the last answer showed, why, and what it changes.

Law: every name, number and place in a text stands in the answer, in the kernel, or in what was
planted; chance picks the words alone. No text claims what was not seen.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_agent.agent.brief import sum_up
from nki_agent.verify.verdict import Stage

WHAT_BYTES_MAX: Final = 200
LINE_BYTES_MAX: Final = 120
LINES_QUOTED_MAX: Final = 2
_STAGE = re.compile(r"^stage: (\w+)", re.MULTILINE)
_FAULT = re.compile(
    r"^Repair first: (?:\S+?:(?P<line>\d+): )?(?P<code>NK\d{3}) (?P<what>.*)$", re.MULTILINE
)
_SEED = re.compile(r", seed \d+")

FIRST: Final = (
    "I write the whole kernel and let it be judged.",
    "A first version, tile by tile; the judge says whether it holds.",
    "Here is the kernel as I would write it from the plan.",
    "I start with the whole kernel, then look at what the judge says.",
)
PLACED: Final[Mapping[Stage, Sequence[str]]] = {
    Stage.REFUSED: (
        "The checker refuses line {line}: {what} ({code}).",
        "Line {line} is refused with {code}: {what}.",
        "{code} at line {line}: {what}. Nothing was traced yet.",
    ),
    Stage.UNTRACEABLE: (
        "Tracing stops at line {line} with {code}: {what}.",
        "Line {line} can't be traced: {what} ({code}).",
        "{code} at line {line}: {what}.",
    ),
    Stage.UNFIT: (
        "It traces, and then {code} at line {line}: {what}.",
        "Line {line} is legal alone, but the kernel does not fit together: {what} ({code}).",
    ),
    Stage.WRONG: ("It runs, and {code} says at line {line}: {what}.",),
    Stage.CHEAT: (
        "The result does not come from the inputs: {code} at line {line}, {what}.",
        "{code} at line {line}: {what}. So the output can't depend on the arguments.",
    ),
}
UNPLACED: Final[Mapping[Stage, Sequence[str]]] = {
    Stage.WRONG: (
        "It runs, but its values are wrong: {what}.",
        "The shapes are fine and the values are not: {what} ({code}).",
        "{code}: {what}. Everything before the values is accepted, so it is the computation.",
    ),
}
ANY: Final = ("{code}: {what}.", "The judge names {code}: {what}.")
CAUSES: Final = ("The cause: {cause}.", "{cause}.", "The reason is that {cause}.", "Why: {cause}.")
ADDED: Final = ("I add {lines} before line {number}.", "Before line {number} goes {lines}.")
CHANGED: Final = (
    "Line {number} becomes {lines}.",
    "I write {lines} in line {number}.",
    "So line {number} is now {lines}.",
)
MENDED: Final = (
    "It is right now, so I hand it in.",
    "The judge calls it right; I submit it.",
    "Right on all trials. I submit this version.",
    "That was the only fault: the kernel is right. I hand it in.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What an answer says first."""

    stage: Stage
    code: str
    line: int | None
    what: str


def read_finding(answer: str) -> Finding | None:
    """The first fault of a tool's answer."""
    stage, fault = _STAGE.search(answer), _FAULT.search(answer)
    if stage is None or fault is None:
        return None
    what = sum_up(_SEED.sub("", fault["what"]).split("; ")[0], max_bytes=WHAT_BYTES_MAX)
    return Finding(
        stage=Stage(stage[1]),
        code=fault["code"],
        line=None if fault["line"] is None else int(fault["line"]),
        what=what.rstrip("."),
    )


def tell_repair(
    finding: Finding, cause: str, *, faulty: str, right: str, rng: np.random.Generator
) -> str:
    """Diagnosis, cause and change in three sentences."""
    forms = PLACED if finding.line is not None else UNPLACED
    shown = pick(forms.get(finding.stage, ANY), rng).format(
        line=finding.line, what=finding.what, code=finding.code
    )
    why = _capital(pick(CAUSES, rng).format(cause=cause))
    return f"{_capital(shown)} {why} {describe_change(faulty, right, rng)}"


def describe_change(before: str, after: str, rng: np.random.Generator) -> str:
    """Which lines change, quoted where they are few."""
    old, new = before.splitlines(), after.splitlines()
    blocks = [
        (kind, i, j, k, m)
        for kind, i, j, k, m in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes()
        if kind != "equal"
    ]
    if len(blocks) == 1:
        _, i, j, k, m = blocks[0]
        lines = [_quote(line) for line in new[k:m] if line.strip()]
        if lines and len(lines) <= LINES_QUOTED_MAX:
            quoted = " and ".join(lines)
            if i == j:
                return pick(ADDED, rng).format(lines=quoted, number=i + 1)
            return pick(CHANGED, rng).format(lines=quoted, number=i + 1)
        if not lines:
            return f"I take line {i + 1} away."
    numbers = [str(i + 1) for _, i, *_ in blocks]
    listed = " and ".join([", ".join(numbers[:-1]), numbers[-1]] if len(numbers) > 1 else numbers)
    noun = "lines" if len(numbers) > 1 else "the statement at line"
    return f"I change {noun} {listed} and leave the rest as it is."


def pick(forms: Sequence[str], rng: np.random.Generator) -> str:
    """One of several ways to say it."""
    return forms[int(rng.integers(len(forms)))]


def _quote(line: str) -> str:
    return f"`{sum_up(line.strip().rstrip(','), max_bytes=LINE_BYTES_MAX)}`"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
