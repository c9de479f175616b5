"""Dialogues in the short form: a task in a few lines, and the kernel that answers it.

Law: a kernel is taught only if the judge finds it right in its short form. A repair shows one or
two kernels that the judge refuses, with the answers that the loop gives to them, and the right
kernel, which alone is learned. A faulty kernel is that of another task of the same graph (of
another rank or dtype, as small models write it), or has a planted fault.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec

from nki_agent.agent.judging import FarmJudging
from nki_agent.agent.prompt import Prompt
from nki_agent.agent.short import write_stage
from nki_agent.base.seeds import rng_for, seed_for
from nki_agent.chip.spec import Target
from nki_agent.corpus.faults.planting import list_drafts
from nki_agent.corpus.record import CorpusTask, Solution
from nki_agent.corpus.short import short_form
from nki_agent.farm.executor import Executor
from nki_agent.train.resizing import resize
from nki_agent.train.shelf import Shelf
from nki_agent.verify.kernel import Kernel

SINGLE: Final = "single"
REPAIR: Final = "repair"
AT_ONCE: Final = 64
"""Kernels that are judged together."""


class ShortRow(msgspec.Struct, frozen=True, kw_only=True):
    """A dialogue as SFT reads it."""

    id: str
    kind: str
    split: str
    level: int
    messages: list[dict[str, str]]
    trained: list[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortTask:
    """A task with its prompt and its kernel, both short."""

    row: CorpusTask
    target: Target
    prompt: Prompt
    kernel: str

    @property
    def texts(self) -> tuple[str, str, str]:
        """All that is said of it."""
        return self.prompt.system, self.prompt.user, fence(self.kernel)


def fence(kernel: str) -> str:
    """A kernel as a reply."""
    return f"```python\n{kernel}```\n"


def list_short(
    shelf: Shelf, solutions: Mapping[str, Solution], rows: Sequence[CorpusTask]
) -> Iterator[ShortTask]:
    """The solved ones of `rows` in the short form, however long."""
    for row in rows:
        if (solution := solutions.get(row.id)) is not None:
            found = short_form(shelf.take(row).task, solution)
            yield ShortTask(
                row=row,
                target=Target(solution.target),
                prompt=found.prompt,
                kernel=found.kernel,
            )


def make_rows(
    tasks: Sequence[ShortTask], shelf: Shelf, *, executor: Executor, repairs: float, seed: int
) -> Iterator[list[ShortRow]]:
    """The dialogues of each task, a few tasks at a time; `repairs` get a planted fault."""
    kernels: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        kernels[task.row.graph].append(task.kernel)
    for start in range(0, len(tasks), AT_ONCE):
        some = tasks[start : start + AT_ONCE]
        faulty = [
            list(_list_faulty(task, kernels[task.row.graph], repairs=repairs, seed=seed))
            for task in some
        ]
        yield from asyncio.run(_make_some(some, faulty, shelf, executor=executor, seed=seed))


def _list_faulty(
    task: ShortTask, siblings: Sequence[str], *, repairs: float, seed: int
) -> Iterator[str]:
    """Kernels that may be wrong for the task; the judge says whether they are."""
    rng = rng_for(seed, task.row.id, "faulty")
    others = sorted({kernel for kernel in siblings if kernel != task.kernel})
    if others:
        yield others[int(rng.integers(len(others)))]
    if rng.random() < repairs:
        yield from (planted.source for planted in islice(list_drafts(task.kernel, rng), 1))


async def _make_some(
    tasks: Sequence[ShortTask],
    faulty: Sequence[Sequence[str]],
    shelf: Shelf,
    *,
    executor: Executor,
    seed: int,
) -> list[list[ShortRow]]:
    makers = []
    for task, kernels in zip(tasks, faulty, strict=True):
        path = shelf.take(task.row).path
        judging = FarmJudging(executor=executor, task=path, target=task.target)
        makers.append(_make_task(task, kernels, judging, seed=seed))
    return list(await asyncio.gather(*makers))


async def _make_task(
    task: ShortTask, faulty: Sequence[str], judging: FarmJudging, *, seed: int
) -> list[ShortRow]:
    root_seed = seed_for(seed, task.row.id, "short")
    verdict = await judging.judge(Kernel.from_text(task.kernel), root_seed=root_seed)
    if not verdict.right:
        return []
    rows = [_make_row(task, SINGLE, ())]
    shown: list[str] = []
    for source in faulty:
        found = await judging.judge(Kernel.from_text(source), root_seed=root_seed)
        if not found.right:
            shown += [fence(source), write_stage(found.stage, found.diagnostics)]
            rows.append(_make_row(task, REPAIR, shown))
    return rows


def _make_row(task: ShortTask, kind: str, between: Sequence[str]) -> ShortRow:
    system, user, reply = task.texts
    roles = ("system", "user", *("assistant", "user") * (len(between) // 2), "assistant")
    texts = (system, user, *between, reply)
    messages: list[dict[str, Any]] = [
        {"role": role, "content": text} for role, text in zip(roles, texts, strict=True)
    ]
    return ShortRow(
        id=f"{task.row.id}/{kind}{len(between) // 2 or ''}",
        kind=kind,
        split=task.row.split.value,
        level=task.row.level,
        messages=messages,
        trained=[False] * (len(messages) - 1) + [True],
    )


def vary_sizes(row: ShortRow, task: CorpusTask, *, times: int, seed: int) -> Iterator[ShortRow]:
    """A single shot as it is, and at other sizes, where the task has sizes that may vary."""
    yield row
    system, user, *rest = row.messages
    rng = rng_for(seed, row.id, "sizes")
    known = {user["content"]}
    for number in range(1, times):
        text = resize(task, user["content"], rng)
        if text is None:
            return
        if text not in known:
            known.add(text)
            asked = {"role": "user", "content": text}
            yield msgspec.structs.replace(
                row, id=f"{row.id}/{number}", messages=[system, asked, *rest]
            )
