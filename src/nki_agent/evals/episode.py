"""One attempt from a task to its line in the results.

Law: what the model does is in the attempt; our own and the machine's failure is an exception, and
the attempt is made again when the evaluation resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nki_agent.agent.ablation import Ablation
from nki_agent.agent.archive import Archive
from nki_agent.agent.episode import End, Episode, Limits, Mode
from nki_agent.agent.judging import Judging
from nki_agent.agent.loop import solve
from nki_agent.agent.past import begin_or_go_on, make_start
from nki_agent.agent.prompt import WHOLE, make_prompt
from nki_agent.agent.short import choose_toolbox
from nki_agent.agent.tools import Shelf
from nki_agent.agent.trajectory import Trajectory, Watch, watch_nothing
from nki_agent.base.clock import Clock
from nki_agent.base.diagnostic import Severity, clean
from nki_agent.base.errors import MachineError
from nki_agent.base.seeds import seed_for
from nki_agent.bench.attempt import Attempt, Cost, Proof, ShapeSpeed
from nki_agent.bench.suite import SuiteTask
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cost.summary import format_figure, format_percent
from nki_agent.llm.protocol import Model, RunBudgetError
from nki_agent.task.declaration import PERF
from nki_agent.task.task import Scope, Task
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict

MS_PER_S = 1e3
MESSAGE_LENGTH_MAX = 500
PERCENT = 100.0
US_NS = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What one attempt is for."""

    entry: SuiteTask
    task: Task
    target: Target
    sample: int
    root_seed: int
    mode: Mode
    limits: Limits
    perf: bool
    surface: Surface = Surface.NKI
    folder: Path
    """Where trajectory and kernel go."""
    ablation: Ablation = WHOLE
    archive: Archive | None = None
    """Kernels that may be shown; nothing in it may answer this task."""


async def run_attempt(
    assignment: Assignment,
    *,
    model: Model,
    judging: Judging,
    clock: Clock,
    find_baseline: Callable[[str, Target, str], float | None],
    watch: Watch = watch_nothing,
) -> Attempt:
    """Let the model solve the task; judge what it hands in, and claim its speed if asked."""
    task, target = assignment.task, assignment.target
    tools = choose_toolbox(assignment.ablation)(
        judging,
        target=target,
        root_seed=assignment.root_seed,
        tools=assignment.ablation.tools,
        shelf=Shelf(archive=assignment.archive),
        surface=assignment.surface,
    )
    prompt = make_prompt(
        task,
        target=target,
        mode=assignment.mode,
        limits=assignment.limits,
        ablation=tools.restrict(assignment.ablation),
        surface=assignment.surface,
    )
    assignment.folder.mkdir(parents=True, exist_ok=True)
    path = assignment.folder / "trajectory.jsonl"
    trajectory = Trajectory(path, clock=clock, watch=watch)
    begin_or_go_on(trajectory, make_start(task, prompt, model=model, target=target))
    episode = await solve(
        prompt,
        model,
        tools,
        limits=assignment.limits,
        clock=clock,
        trajectory=trajectory,
    )
    require_own_end(episode)
    kernel = None if episode.kernel is None else Kernel.from_text(episode.kernel)
    if episode.kernel is not None:
        (assignment.folder / "kernel.py").write_text(episode.kernel, encoding="utf-8")
    claim = None
    if assignment.perf and kernel is not None and episode.is_solved:
        seed = seed_for(assignment.root_seed, "claim")
        claim = await judging.judge(kernel, root_seed=seed, scope=Scope.CLAIM)
    attempt = _make_attempt(assignment, episode, kernel, claim, find_baseline)
    return msgspec.structs.replace(
        attempt, prompt_hash=prompt.hash, ablation=str(assignment.ablation)
    )


def require_own_end(episode: Episode) -> None:
    """Raise where an episode ended for a reason that says nothing about the model."""
    if episode.end is End.MODEL_AWAY:
        raise MachineError(episode.message)
    if episode.end is End.RUN_BUDGET:
        raise RunBudgetError(episode.message)


def _make_attempt(
    assignment: Assignment,
    episode: Episode,
    kernel: Kernel | None,
    claim: Verdict | None,
    find_baseline: Callable[[str, Target, str], float | None],
) -> Attempt:
    verdict = episode.verdict
    proof = Proof.UNTRIED
    if claim is not None:
        proof = Proof.RIGHT if claim.stage is Stage.RIGHT else Proof.WRONG
    spoken = [v for v in (verdict, claim) if v is not None and v.right]
    errors = (
        [] if verdict is None else [*verdict.diagnostics, *(claim.diagnostics if claim else ())]
    )
    return Attempt(
        task=assignment.task.id,
        task_hash=assignment.task.hash,
        level=assignment.entry.level,
        category=assignment.entry.category,
        target=assignment.target.value,
        sample=assignment.sample,
        root_seed=assignment.root_seed,
        stage=None if verdict is None else verdict.stage,
        end=episode.end.value,
        message=episode.message[:MESSAGE_LENGTH_MAX],
        codes=tuple(dict.fromkeys(d.code for d in errors if d.severity is Severity.ERROR)),
        kernel_hash=None if kernel is None else kernel.hash,
        surface=assignment.surface,
        proof=proof,
        speeds=tuple(_speed(assignment, v, find_baseline) for v in spoken[-1:]),
        cost=Cost(
            turns=episode.turns,
            input_tokens=episode.usage.input_tokens,
            output_tokens=episode.usage.output_tokens,
            cached_tokens=episode.usage.cached_tokens,
            cache_write_tokens=episode.usage.cache_write_tokens,
            usd=episode.usd,
            wall_s=episode.wall_ms / MS_PER_S,
        ),
    )


def _speed(
    assignment: Assignment,
    verdict: Verdict,
    find_baseline: Callable[[str, Target, str], float | None],
) -> ShapeSpeed:
    assert verdict.speed_shapes is not None
    assert verdict.latency_ns is not None
    assert verdict.bound_ns is not None
    assert verdict.percent_of_bound is not None
    peak_ns = assignment.entry.peak_ns.get(assignment.target.value)
    is_claimed = verdict.speed_shapes == PERF
    return ShapeSpeed(
        shapes=verdict.speed_shapes,
        latency_ns=verdict.latency_ns,
        bound_ns=verdict.bound_ns,
        percent_of_bound=verdict.percent_of_bound,
        limited_by=verdict.limited_by or "",
        percent_of_peak=PERCENT * peak_ns / verdict.latency_ns if is_claimed and peak_ns else None,
        baseline_ns=find_baseline(assignment.task.id, assignment.target, verdict.speed_shapes),
    )


def describe_attempt(attempt: Attempt) -> str:
    """One line: the task, how far its kernel came, how fast it is."""
    stage = attempt.end.replace("_", " ") if attempt.stage is None else attempt.stage.value
    line = f"{clean(attempt.task)} {attempt.target}  {stage}"
    if attempt.speeds:
        speed = attempt.speeds[-1]
        line += (
            f"  {format_figure(speed.latency_ns / US_NS)} µs at {clean(speed.shapes)},"
            f" {format_percent(speed.percent_of_bound)} % of the bound"
        )
    elif not attempt.right and attempt.message:
        line += f"  {clean(attempt.message.splitlines()[0])}"
    return line
