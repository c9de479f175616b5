"""Optimisation episodes: from a slow kernel to a fast one, by the best steps of a search.

Law: a step is shown only if its kernel is right and faster than the one before it by what the
author's search calls a gain; what a profile says is what the tool gave. The first kernel is the
author's with plain choices, or its own, so it is right too, and a model may learn to write it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nki_agent.agent.episode import Limits
from nki_agent.base.seeds import rng_for, seed_for
from nki_agent.builtin.capture import capture_task
from nki_agent.builtin.choices import Choices, Phases, Value
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.search import GAIN_MIN, Draft, Result, Search
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import Draft as ChatDraft
from nki_agent.corpus.chat import Kind, train_all
from nki_agent.corpus.desk import Desk
from nki_agent.corpus.episodes import TURNS_MAX, Setting, tell
from nki_agent.corpus.record import CorpusTask, Solution
from nki_agent.corpus.repairing import call
from nki_agent.corpus.telling import pick
from nki_agent.llm.protocol import Message, Reply, Role, StopReason, TokenLimits, ToolSpec
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Verdict

DRAFTS_MIN: Final = 4
DRAFTS_MAX: Final = 14
"""Kernels that one search may look at: what gains most often is tried first."""
INSTRUCTIONS_MAX: Final = 20_000
"""Of all drafts together, counted by the first one: large kernels take longer to schedule."""
STEPS_MAX: Final = 6
GAIN_SHOWN_MIN: Final = 0.05
"""Part of the first latency that all steps together must save."""
PLAIN_SHARE: Final = 0.75
"""Of the episodes: those that begin with plain choices, not with the author's own."""
PLAIN: Final = Choices(
    col_block=512,
    sbuf_share=0.25,
    phases=Phases.NONE,
    packing=False,
    w_share=0.0,
    rows_each=1,
    transpose_cols=512,
)
"""One tile after the other, narrow, with nothing kept: what one writes first."""
US_NS: Final = 1e3
PERCENT: Final = 100.0
_LATENCY = re.compile(r"^latency +(\S+ µs)", re.MULTILINE)
_LIMIT = re.compile(r"^limited by +(.*)", re.MULTILINE)
_LINE = re.compile(r"^ +(\d+) % +\S+ µs +(\S+)  (\S+)", re.MULTILINE)

CHANGES: Final[Mapping[str, str]] = {
    "attention": "the scores stay in SBUF, and attention is one stage",
    "col_block": "tiles of {} columns",
    "depth_group": "parts of {} in the depth of the product",
    "joining": "rows go from a gather or a product straight to what uses them",
    "leaving": "what leaves PSUM is copied by: {}",
    "packing": "short rows share a partition",
    "parking": "tiles that are read beside one from SBUF wait in PSUM, where that is faster",
    "phases": "the later steps of a tile run one tile behind the earlier ones, so engines overlap",
    "row_group": "each block of weights serves {} rows",
    "rows_each": "up to {} short rows lie in one partition while they are loaded",
    "sbuf_share": "the plan may fill {percent:.0f} % of SBUF",
    "short_tiles": "values between 16-bit tensors are kept in 16 bits",
    "split_products": "each product of float32 is three of 16 bits",
    "tiling": "another tiling of the convolution (number {})",
    "transpose_cols": "{} columns of a transpose's source are loaded at a time",
    "w_banks": "{} blocks of weights are loaded at a time",
    "w_share": "weights may take {percent:.0f} % of SBUF and stay there",
}
UNDONE: Final[Mapping[str, str]] = {
    "attention": "scores and their products are stages of their own",
    "joining": "what a gather or a product makes is stored before it is used",
    "packing": "every row has a partition of its own",
    "parking": "every tile lies in SBUF",
    "phases": "all steps of a tile run one after the other",
    "row_group": "each block of weights serves as many rows as fit",
    "short_tiles": "values between 16-bit tensors are kept in float32",
    "split_products": "products of float32 stay whole",
    "tiling": "the convolution takes its first tiling",
}
"""What is said where a choice is switched off."""
OPENINGS: Final = (
    "I begin with a plain kernel that is right, then look where its time goes.",
    "First a kernel that is right; speed comes after.",
    "A straightforward version to begin with; the profile will say what to change.",
)
LOOKS: Final = (
    "It is right. Now its time at the sizes that count.",
    "Right. I profile it at the perf shapes.",
    "The values are right; next, the profile at the perf shapes.",
)
SHOWN: Final = (
    "{latency}, limited by {limit}.",
    "The profile says {latency}, limited by {limit}.",
    "It takes {latency}; what limits it is {limit}.",
)
STEPS: Final = ("So I try this: {}.", "The next version: {}.", "I change one thing: {}.")
PROOFS: Final = (
    "{latency} now, from {first} at first. Its values again, then.",
    "From {first} to {latency}. Before I hand it in, its values.",
)
ENDS: Final = (
    "It is right, and faster than all before. I hand it in.",
    "Right, and the fastest so far: I submit it.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A kernel of the way, and what it changes."""

    source: str
    change: str
    names: tuple[str, ...]
    """Of the choices that it changes."""
    latency_us: float


class Speeder:
    """A Model that walks a way that a search has found; what it says comes from the profiles."""

    def __init__(self, steps: Sequence[Step], *, rng: np.random.Generator) -> None:
        """The first step is the kernel to begin with."""
        self._steps = steps
        self._rng = rng

    @property
    def name(self) -> str:
        """What the records call it."""
        return "builtin"

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        """Verify, profile, change and profile again; in the end verify and hand in."""
        del tools, limits
        turn = sum(message.role is Role.ASSISTANT for message in messages)
        answer = messages[-1].content
        if turn == 0:
            text = pick(OPENINGS, self._rng)
            return call("verify_kernel", 1, text, source=self._steps[0].source)
        if turn == 1:
            return call("profile_kernel", 2, pick(LOOKS, self._rng), shapes="perf")
        if turn - 1 < len(self._steps):
            step = self._steps[turn - 1]
            text = f"{self._show(answer)} {pick(STEPS, self._rng).format(step.change)}"
            return call("profile_kernel", turn + 1, text, source=step.source, shapes="perf")
        if turn - 1 == len(self._steps):
            text = pick(PROOFS, self._rng).format(
                latency=_find(_LATENCY, answer), first=f"{self._steps[0].latency_us:.1f} µs"
            )
            return call("verify_kernel", turn + 1, text)
        if "stage: right" not in answer:
            return Reply(text="It is not right.", stop=StopReason.REFUSAL)
        return call("submit", turn + 1, pick(ENDS, self._rng))

    def _show(self, answer: str) -> str:
        text = pick(SHOWN, self._rng).format(
            latency=_find(_LATENCY, answer), limit=_find(_LIMIT, answer)
        )
        line = _LINE.search(answer)
        return text if line is None else f"{text} {_say_line(line)}"


def make_optimization(
    row: CorpusTask, solution: Solution, *, root_seed: int, desk: Desk
) -> tuple[ChatDraft | None, Verdict | None, str]:
    """The episode of one task with its last verdict; else why there is none."""
    task, target = desk.open(row), Target(solution.target)
    rng = rng_for(root_seed, row.id, "optimize")
    seed = seed_for(root_seed, row.id, "optimize")
    first = PLAIN if rng.random() < PLAIN_SHARE else Choices()
    steps = find_steps(task, desk.judge_for(target), first=first, root_seed=seed)
    if len(steps) < 2 or steps[-1].latency_us > steps[0].latency_us * (1 - GAIN_SHOWN_MIN):  # noqa: PLR2004
        return None, None, "no step is faster"
    setting = Setting(task=task, target=target, root_seed=seed, limits=Limits(turns=TURNS_MAX))
    told = tell(setting, Speeder(steps, rng=rng), desk)
    verdict = told.episode.verdict
    if not told.episode.is_solved or verdict is None:
        return None, None, "the fastest is not right again"
    draft = ChatDraft(
        kind=Kind.OPTIMIZE,
        author="builtin",
        messages=told.messages,
        tools=told.tools,
        trained=train_all(told.messages),
        prompt_hash=told.prompt_hash,
        kernel=steps[-1].source,
        stages=told.stages,
    )
    return draft, verdict, ""


def find_steps(task: Task, judge: Judge, *, first: Choices, root_seed: int) -> list[Step]:
    """The kernels of a search that were better than all before them, the first one included."""
    write = _make_writer(task, judge.target)
    if write is None or write(first) is None:
        return []
    source = write(first)
    assert source is not None
    found = judge.look(Kernel.from_text(source), task.perf)
    results = {source: _read(found)}
    if found.num_instructions is None:
        return []
    drafts = min(DRAFTS_MAX, max(DRAFTS_MIN, INSTRUCTIONS_MAX // max(1, found.num_instructions)))
    search = Search(write, first=first, seed=root_seed, drafts=drafts)
    while (course := search.follow(results)).open is not None:
        draft = course.open
        known = draft.result or _look(judge, task, draft.source)
        if draft.result is not None:
            known = _judge(judge, task, draft, root_seed=root_seed)
        results[draft.source] = known
    return _best_steps(course.tried)


def _best_steps(tried: Sequence[Draft]) -> list[Step]:
    steps = [_step(tried[0])]
    for draft in tried[1:]:
        result = draft.result
        if result is None or result.latency_us is None or draft.is_right is not True:
            continue
        if result.latency_us >= steps[-1].latency_us * (1 - GAIN_MIN):
            continue
        if len(steps) > 1 and steps[-1].names == tuple(draft.change):
            steps.pop()  # the same choice once more: the better value says it all
        steps.append(_step(draft))
    return [steps[0], *steps[1:][-STEPS_MAX:]]


def _step(draft: Draft) -> Step:
    assert draft.result is not None
    assert draft.result.latency_us is not None
    change = ", ".join(map(say_change, draft.change, draft.change.values()))
    return Step(
        source=draft.source,
        change=change,
        names=tuple(draft.change),
        latency_us=draft.result.latency_us,
    )


def say_change(name: str, value: Value) -> str:
    """A choice in words.

    >>> say_change("packing", True), say_change("col_block", 4096)
    ('short rows share a partition', 'tiles of 4096 columns')
    """
    is_off = value in (False, 0, Phases.NONE) and name in UNDONE
    percent = PERCENT * value if isinstance(value, float) else 0.0
    return UNDONE[name] if is_off else CHANGES[name].format(value, percent=percent)


def _make_writer(task: Task, target: Target) -> Callable[[Choices], str | None] | None:
    """Writes kernels of a task that is read once; None where the author can't."""
    try:
        captured = capture_task(task)
    except UnsupportedError:
        return None
    written: dict[Choices, str | None] = {}

    def write(choices: Choices) -> str | None:
        if choices not in written:
            try:
                source = write_kernel(task, target, choices=choices, captured=captured)
            except UnsupportedError:
                written[choices] = None
            else:
                written[choices] = source
        return written[choices]

    return write


def _look(judge: Judge, task: Task, source: str) -> Result:
    return _read(judge.look(Kernel.from_text(source), task.perf))


def _read(found: Look) -> Result:
    if found.summary is None:
        return Result(latency_us=None)
    return Result(latency_us=found.summary.latency_ns / US_NS, limit=found.summary.limit_text)


def _judge(judge: Judge, task: Task, draft: Draft, *, root_seed: int) -> Result:
    """One more verdict on a draft that is faster."""
    assert draft.result is not None
    verdicts = draft.result.verdicts
    seed = seed_for(root_seed, "search", len(verdicts))
    verdict = judge.judge(Kernel.from_text(draft.source), task, root_seed=seed)
    return Result(
        latency_us=draft.result.latency_us,
        limit=draft.result.limit,
        verdicts=(*verdicts, verdict.right),
    )


def _say_line(line: re.Match[str]) -> str:
    return f"Line {line[2].rpartition(':')[2]} (`{line[3]}`) is {line[1]} % of the chain."


def _find(pattern: re.Pattern[str], answer: str) -> str:
    found = pattern.search(answer)
    return found[1].split(";")[0].rstrip(".") if found else "what the profile shows"
