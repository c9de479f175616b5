"""The benchmark as a task of Inspect: our episode as its solver, our judge as its scorer.

Law: the same episode, prompt, tools and judge as `nki-agent bench run`, with Inspect's model,
limits and log. A failure of ours or of the machine is an error of the sample and no score. Needs
the extra `agent`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, get_model
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Metric,
    SampleScore,
    Score,
    Target,
    accuracy,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import Generate, TaskState, solver

from nki_agent.agent.ablation import Ablation, PromptKind, make_ablation
from nki_agent.agent.episode import Limits, Mode, find_turns
from nki_agent.agent.trajectory import Turn, read_trajectory
from nki_agent.base.clock import SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import draw_root_seed, require_seed, seed_for
from nki_agent.bench.attempt import Attempt
from nki_agent.bench.splits import find_split
from nki_agent.bench.suite import BUILTIN, builtin_suite
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target as Chip
from nki_agent.evals.episode import Assignment, describe_attempt, run_attempt
from nki_agent.evals.inspect_messages import list_messages, tell_event
from nki_agent.evals.workshop import Author, LocalWorkshop, find_baseline
from nki_agent.farm.executor import WORKERS_MAX
from nki_agent.farm.local import LocalExecutor
from nki_agent.llm.choose import BUILTIN as BUILTIN_MODEL
from nki_agent.llm.choose import ModelSource
from nki_agent.llm.inspect_model import InspectModel
from nki_agent.llm.meter import Budget, MeteredModel, Purse, SharedTime
from nki_agent.llm.prices import Tariff, read_prices

COUNT_MAX = 1_000_000
Choice = TypeVar("Choice", bound=StrEnum)
ATTEMPT, KERNEL = "attempt", "kernel"
"""Keys of a sample's store."""


@task
def nkibench(  # noqa: PLR0913 - Inspect reads options from the signature
    *,
    split: str = "smoke-12",
    target: str = "trn2",
    mode: str = Mode.LOOP.value,
    surface: str = Surface.NKI.value,
    turns: int | None = None,
    prompt: str = PromptKind.RANK_AWARE.value,
    tools: str | None = None,
    perf: bool = False,
    seed: int | None = None,
    workers: int | None = None,
) -> Task:
    """NKIBench-250: write NKI kernels that are right on secret inputs, and fast.

    Args:
        split: full-250, stratified-150, stratified-60 or smoke-12.
        target: trn1, inf2, trn2 or trn3.
        mode: `loop` with tools, or `single-shot`.
        surface: `nki`, or `isa`: instructions alone, at explicit addresses.
        turns: Most model calls in a loop; 10, on `isa` 15, 20, 25 by level, if left out.
        prompt: `rank-aware`, `plain` or `short`.
        tools: `all`, `none`, or some: `compile,verify`.
        perf: Try right kernels at their perf shapes too; only those count as fast.
        seed: Root seed of the secret inputs; drawn if left out.
        workers: Judging processes; one a core if left out.
    """
    try:
        return _make_task(
            split,
            author={
                "target": _choose(Chip, target, option="target").value,
                "mode": _choose(Mode, mode, option="mode").value,
                "surface": _choose(Surface, surface, option="surface").value,
                "turns": _require_count(turns, most=COUNT_MAX, option="turns"),
                "ablation": msgspec.to_builtins(
                    make_ablation(
                        _choose(PromptKind, prompt, option="prompt"), tools, mode=Mode(mode)
                    )
                ),
                "perf": perf,
                "seed": draw_root_seed() if seed is None else require_seed(seed),
                "workers": _require_count(workers, most=WORKERS_MAX, option="workers"),
            },
        )
    except UsageError as error:
        # Inspect says it without a traceback.
        raise PrerequisiteError(str(error)) from error


def _choose(kind: type[Choice], value: str, *, option: str) -> Choice:
    """The member of this name; UsageError with the names that there are."""
    try:
        return kind(value)
    except ValueError as error:
        hint = f"one of {', '.join(kind)}"
        raise UsageError(f"`-T {option}={value}` is not known", hint=hint) from error


def _require_count(count: object, *, most: int, option: str) -> int | None:
    """A count as the command line gives it, which may be a text."""
    if count is None:
        return None
    if isinstance(count, int) and 1 <= count <= most:
        return count
    raise UsageError(f"`-T {option}={count}` is not between 1 and {most}")


def _make_task(split: str, *, author: dict[str, Any]) -> Task:
    suite = builtin_suite()
    samples = [
        Sample(
            id=task_id,
            input=f"Write an NKI kernel for `{task_id}`.",
            target=CORRECT,
            metadata={
                "level": suite.find_task(task_id).level,
                "category": suite.find_task(task_id).category,
            },
        )
        for task_id in find_split(split).tasks
    ]
    return Task(
        dataset=MemoryDataset(samples, name=f"{BUILTIN}/{split}"),
        solver=kernel_author(**author),
        scorer=kernel_judge(),
        version=int(suite.version),
    )


@solver
def kernel_author(  # noqa: PLR0913 - Inspect logs them by name
    *,
    target: str,
    mode: str,
    surface: str,
    turns: int | None,
    ablation: dict[str, Any],
    perf: bool,
    seed: int,
    workers: int | None,
) -> Any:
    """Our episode with the model of the evaluation."""
    suite, chip, chosen = builtin_suite(), Chip(target), Surface(surface)
    shop: list[LocalWorkshop] = []

    def open_shop() -> LocalWorkshop:
        # One farm for all samples, started by the first; it ends with this process.
        if not shop:
            shop.append(
                LocalWorkshop(
                    author=Author(models=ModelSource(BUILTIN_MODEL), surface=chosen),
                    executor=LocalExecutor(workers=workers),
                    baseline=find_baseline(suite),
                )
            )
        return shop[0]

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        del generate  # the episode asks the model itself
        entry, workshop = suite.find_task(str(state.sample_id)), open_shop()
        kernel_task = workshop.load(entry)
        with tempfile.TemporaryDirectory(prefix="nki-agent-") as folder:
            attempt = await run_attempt(
                Assignment(
                    entry=entry,
                    task=kernel_task,
                    target=chip,
                    sample=state.epoch,
                    root_seed=seed_for(seed, entry.id, chip.value, state.epoch),
                    mode=Mode(mode),
                    limits=_limit(turns, Mode(mode), find_turns(chosen, entry.level)),
                    surface=chosen,
                    perf=perf,
                    folder=Path(folder),
                    ablation=msgspec.convert(ablation, Ablation),
                ),
                model=_meter(get_model()),
                judging=workshop.make_judging(entry, chip),
                clock=SystemClock(),
                find_baseline=workshop.find_baseline,
                watch=tell_event,
            )
            _tell(state, attempt, Path(folder))
        return state

    return solve


def _limit(turns: int | None, mode: Mode, usual: int) -> Limits:
    if mode is Mode.SINGLE_SHOT:
        return Limits(turns=1)
    return Limits(turns=usual if turns is None else turns)


def _meter(model: Any) -> MeteredModel:
    """Inspect's model, with what our table says that it costs; limits are Inspect's own."""
    asked = InspectModel(model)
    price = read_prices().find(asked.name)
    return MeteredModel(
        asked,
        tariff=Tariff(price=price),
        purse=Purse(Budget()),
        time=SharedTime(SystemClock()),
    )


def _tell(state: TaskState, attempt: Attempt, folder: Path) -> None:
    """Put conversation, kernel and attempt into the sample."""
    events = read_trajectory(folder / "trajectory.jsonl")
    messages = list_messages(events)
    replies = [event.reply.text for event in events if isinstance(event, Turn)]
    state.output.completion = replies[-1] if replies else ""
    state.messages = messages or [ChatMessageSystem(content=""), ChatMessageUser(content="")]
    kernel = folder / "kernel.py"
    if kernel.exists():
        state.store.set(KERNEL, kernel.read_text(encoding="utf-8"))
    state.store.set(ATTEMPT, msgspec.to_builtins(attempt))
    state.completed = True


def _attempts(scores: Sequence[SampleScore]) -> list[Attempt]:
    return [
        msgspec.convert(score.score.metadata[ATTEMPT], Attempt)
        for score in scores
        if score.score.metadata is not None
    ]


@metric
def compiled() -> Metric:
    """Share of samples whose kernel could be run."""

    def compute(scores: list[SampleScore]) -> float:
        return sum(a.compiled for a in _attempts(scores)) / max(1, len(scores))

    return compute


@metric
def fast(p: float = 1.0) -> Metric:
    """Share of samples that are right at the perf shapes and more than `p` times the baseline."""

    def compute(scores: list[SampleScore]) -> float:
        speedups = [a.speedup for a in _attempts(scores)]
        return sum(s is not None and s > p for s in speedups) / max(1, len(scores))

    return compute


@scorer(metrics=[accuracy(), stderr(), compiled(), fast()])
def kernel_judge() -> Any:
    """Right on secret inputs, by the judge's last word."""

    async def score(state: TaskState, target: Target) -> Score:
        del target
        attempt = msgspec.convert(state.store.get(ATTEMPT), Attempt)
        return Score(
            value=CORRECT if attempt.right else INCORRECT,
            answer=state.store.get(KERNEL),
            explanation=describe_attempt(attempt),
            metadata={ATTEMPT: state.store.get(ATTEMPT)},
        )

    return score
