"""Judges stored kernels again, on seeds that nobody has seen.

Law: every kernel of a corpus is right on any seed; one that is not is named with its verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from nki_agent.base.seeds import rng_for, seed_for
from nki_agent.chip.spec import Target
from nki_agent.corpus.desk import Desk
from nki_agent.corpus.record import CorpusTask, Solution
from nki_agent.corpus.solving import describe_failure
from nki_agent.corpus.workers import Answerer, Crew, Failure
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Verdict

ENTRY: Final = "nki_agent.corpus.checking:make_checker"


class CheckOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel to be judged again."""

    row: CorpusTask
    kernel: str
    target: Target
    root_seed: int
    allow_unsandboxed: bool = False


@dataclass(slots=True, kw_only=True)
class Checked:
    """How far the work is, and what it found."""

    total: int
    done: int = 0
    right: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    """`task/kernel` → its stage and first finding."""
    failed: dict[str, str] = field(default_factory=dict)


def sample_solutions(
    solutions: Sequence[Solution], *, number: int, root_seed: int
) -> list[Solution]:
    """So many different solutions by chance, in their order; all where there are fewer."""
    if number >= len(solutions):
        return list(solutions)
    rng = rng_for(root_seed, "sample")
    chosen = sorted(rng.choice(len(solutions), size=number, replace=False).tolist())
    return [solutions[index] for index in chosen]


def check_solutions(
    solutions: Sequence[Solution],
    tasks: Mapping[str, CorpusTask],
    *,
    root_seed: int,
    workers: int,
    watch: Callable[[Checked], None],
    allow_unsandboxed: bool = False,
) -> Checked:
    """Judge each on a seed of its own."""
    found = Checked(total=len(solutions))
    crew = Crew(entry=ENTRY, workers=workers)
    orders = (
        CheckOrder(
            row=tasks[solution.task],
            kernel=solution.kernel,
            target=Target(solution.target),
            root_seed=seed_for(root_seed, solution.task, solution.kernel_sha256),
            allow_unsandboxed=allow_unsandboxed,
        )
        for solution in solutions
    )
    answers = crew.work(map(msgspec.msgpack.encode, orders))
    for solution, answer in zip(solutions, answers, strict=True):
        name = f"{solution.task}/{solution.kernel_sha256[:12]}"
        found.done += 1
        if isinstance(answer, Failure):
            found.failed[name] = describe_failure(answer)
        elif (verdict := msgspec.msgpack.decode(answer, type=Verdict)).right:
            found.right += 1
        else:
            first = verdict.diagnostics[0] if verdict.diagnostics else None
            why = "" if first is None else f", {first.code} {first.what}"
            found.wrong[name] = f"{verdict.stage.value} on seed {verdict.root_seed}{why}"
        watch(found)
    return found


def make_checker() -> Answerer:
    """What a process of the crew does."""
    desks: dict[bool, Desk] = {}

    def answer(data: bytes) -> bytes:
        order = msgspec.msgpack.decode(data, type=CheckOrder)
        desk = desks.setdefault(
            order.allow_unsandboxed, Desk(allow_unsandboxed=order.allow_unsandboxed)
        )
        verdict = desk.judge_for(order.target).judge(
            Kernel.from_text(order.kernel), desk.open(order.row), root_seed=order.root_seed
        )
        return msgspec.msgpack.encode(verdict)

    return answer
