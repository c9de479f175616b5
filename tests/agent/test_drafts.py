"""Faulty drafts are repaired by what their diagnostics say, applied mechanically.

Law: a draft counts as repaired when the checker's own edits make it right, or when one step does
whose every name and number stands in the message or in the kernel, at a line that the message names
or that sets a name used there. What does not count says why in its file.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nki_agent.agent.fixes import find_fix
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.tools import Answer, Toolbox
from nki_agent.chip.spec import Target
from nki_agent.task.loader import load_task
from nki_agent.verify.judge import Judge
from nki_agent.verify.verdict import Stage

DRAFTS = Path(__file__).parent / "drafts"
REPAIRED_MIN = 32
STEP_LINES_MAX = 5
"""Lines that one step may write."""
KINDS = {"size and index", "wrong names", "tile limits", "memory region", "numerics"}
_BLOCK = re.compile(r"```(?:python|diff)\n(.*?)```", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*|\d+(?:\.\d+)?")
_LINE = re.compile(r"kernel\.py:(\d+)")
COMMON = {*keyword.kwlist, *dir(builtins), "dst", "src", "data", "data1", "data2", "op", "0", "1"}
"""Words of Python, parameters that every kernel uses, and the ends of a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftCase:
    """A task, a kernel with one fault, and the step that repairs it."""

    name: str
    kind: str
    task: str
    kernel: str
    old: str
    new: str
    is_given_up: bool

    @property
    def repaired(self) -> str:
        return self.kernel.replace(self.old, self.new)


def read_drafts() -> Iterator[DraftCase]:
    for path in sorted(DRAFTS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        task, kernel, *step = _BLOCK.findall(text)
        lines = step[0].splitlines() if step else []
        kind = re.search(r"^- kind: (.+)$", text, re.MULTILINE)
        assert kind
        yield DraftCase(
            name=path.stem,
            kind=kind[1],
            task=task,
            kernel=kernel,
            old="\n".join(line[1:] for line in lines if line.startswith("-")),
            new="\n".join(line[1:] for line in lines if line.startswith("+")),
            is_given_up="## Not repaired" in text,
        )


CASES = tuple(read_drafts())


def verify(draft: DraftCase, kernel: str, *, judge: Judge, folder: Path) -> Answer:
    path = folder / "task.py"
    path.write_text(draft.task)
    tools = Toolbox(OneJudge(judge, load_task(path)), target=Target.TRN2, root_seed=3)
    return asyncio.run(tools.verify(kernel))


def test_drafts_are_forty_of_every_kind_half_of_them_our_own() -> None:
    assert len(CASES) == 40
    assert set(Counter(draft.kind for draft in CASES)) == KINDS
    assert sum(draft.name.startswith("case_") for draft in CASES) == 20
    assert sum(not draft.is_given_up for draft in CASES) >= REPAIRED_MIN


@pytest.mark.parametrize("draft", CASES, ids=lambda draft: draft.name)
def test_draft_is_repaired_by_what_its_message_says(
    draft: DraftCase, judge: Judge, tmp_path: Path
) -> None:
    answer = verify(draft, draft.kernel, judge=judge, folder=tmp_path)
    assert answer.stage is not Stage.RIGHT
    if draft.is_given_up:
        return
    if not draft.old:
        fix = find_fix(draft.kernel, target=Target.TRN2)
        assert fix
        repaired = fix.text
    else:
        assert draft.old in draft.kernel
        assert find_unsaid(draft, answer.text) == set()
        assert is_at_a_named_place(draft, answer.text)
        assert draft.new.count("\n") < STEP_LINES_MAX
        repaired = draft.repaired
    assert verify(draft, repaired, judge=judge, folder=tmp_path).stage is Stage.RIGHT


def find_unsaid(draft: DraftCase, answer: str) -> set[str]:
    """Words of the step that are neither in the message nor in the kernel, nor new names."""
    said = {*_WORD.findall(answer), *_WORD.findall(draft.kernel)}
    parts = {part.lower() for word in said for part in word.split("_")}  # `psum_tile` names PSUM
    whole = {word.removesuffix(".0") for word in said}
    known = {*said, *parts, *whole, *COMMON, *find_bound(draft.repaired)}
    return set(_WORD.findall(draft.new)) - known


def find_bound(source: str) -> Iterator[str]:
    """Names that a source sets."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def is_at_a_named_place(draft: DraftCase, answer: str) -> bool:
    """Whether the step changes a line that is named, or one that sets a name used there."""
    lines = draft.kernel.splitlines()
    named = {int(number) for number in _LINE.findall(answer)}
    if not named:
        return True  # wrong values have no line: the step is in the hint
    changed = {
        draft.kernel[: found.start()].count("\n") + 1 + offset
        for found in re.finditer(re.escape(draft.old), draft.kernel)
        for offset in range(draft.old.count("\n") + 1)
    }
    used = {word for number in named for word in _WORD.findall(lines[number - 1])}
    entry = any("@nki.jit" in lines[number - 1] for number in named)
    return bool(changed & named) or any(
        _sets(lines[number - 1]) & used or (entry and "return" in draft.kernel)
        for number in changed
    )


def _sets(line: str) -> set[str]:
    found = re.match(r"\s*(?:for\s+)?([\w, ]+?)\s*(?:=|\bin\b)", line)
    return set(_WORD.findall(found[1])) if found else set()
