"""Attempts at tasks by a model in this process: the agent's loop, its tools and the farm's judges.

Law: an attempt that the machine or a bug of ours ended has no Outcome, and is never taken for a
failed one. Equal kernels of one task and seed are judged once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nki_agent.agent.ablation import Ablation
from nki_agent.agent.episode import End, Episode, Limits, Mode
from nki_agent.agent.judging import FarmJudging, Judging
from nki_agent.agent.loop import solve
from nki_agent.agent.prompt import make_prompt
from nki_agent.agent.short import choose_toolbox
from nki_agent.agent.trajectory import Trajectory
from nki_agent.base.clock import Clock
from nki_agent.base.errors import MachineError
from nki_agent.base.seeds import seed_for
from nki_agent.chip.spec import Target
from nki_agent.farm.executor import Executor
from nki_agent.llm.protocol import TokenLimits
from nki_agent.task.task import Scope
from nki_agent.train.batched import Batch, BatchedModel, Draw, Record
from nki_agent.train.outcome import Outcome
from nki_agent.train.shelf import Entry
from nki_agent.train.tokens import Template
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Verdict

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How attempts are made, all alike."""

    template: Template
    mode: Mode
    turns: int
    reply_tokens: int
    room_tokens: int
    """For all replies of an attempt and the answers between them."""
    target: Target
    ablation: Ablation
    remembered: int | None = None
    """Replies that the model reads again; all if None."""

    @property
    def limits(self) -> Limits:
        """For the agent's loop; its tokens are counted here, as they are drawn."""
        return Limits(
            turns=1 if self.mode is Mode.SINGLE_SHOT else self.turns,
            wall_s=HOUR_S,
            total_tokens=1 << 31,
            reply=TokenLimits(output_tokens=self.reply_tokens),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """One attempt: its tokens, and what became of it; no outcome where the machine lost it."""

    entry: Entry
    record: Record
    end: End | None
    outcome: Outcome | None
    loss: str = ""
    """Why there is no outcome."""
    turns: int = 0
    kernel: str | None = None


@dataclass(slots=True)
class Records:
    """The latencies that rewards compare with, in ns, by task."""

    baseline_ns: Mapping[str, float] = field(default_factory=dict)
    best_ns: dict[str, float] = field(default_factory=dict)

    def note(self, task: str, verdict: Verdict | None) -> None:
        """A right kernel may be the best so far."""
        if verdict is None or not verdict.right or verdict.latency_ns is None:
            return
        self.best_ns[task] = min(verdict.latency_ns, self.best_ns.get(task, verdict.latency_ns))


class SharedJudging:
    """Judges equal kernels once; for the attempts of one task in one batch."""

    def __init__(self, judging: Judging) -> None:
        """What is not known yet goes to `judging`."""
        self._judging = judging
        self._looks: dict[tuple[str, Scope], asyncio.Task[Look]] = {}
        self._verdicts: dict[tuple[str, int, Scope], asyncio.Task[Verdict]] = {}

    async def look(self, kernel: Kernel, *, scope: Scope = Scope.PROOF) -> Look:
        """As the protocol says."""
        key = kernel.hash, scope
        if key not in self._looks:
            self._looks[key] = asyncio.ensure_future(self._judging.look(kernel, scope=scope))
        return await asyncio.shield(self._looks[key])

    async def judge(self, kernel: Kernel, *, root_seed: int, scope: Scope = Scope.PROOF) -> Verdict:
        """As the protocol says."""
        key = kernel.hash, root_seed, scope
        if key not in self._verdicts:
            coroutine = self._judging.judge(kernel, root_seed=root_seed, scope=scope)
            self._verdicts[key] = asyncio.ensure_future(coroutine)
        return await asyncio.shield(self._verdicts[key])


class Workbench:
    """Makes attempts at entries; keeps the best latency of each task."""

    def __init__(
        self,
        way: Way,
        draw: Draw,
        executor: Executor,
        *,
        clock: Clock,
        records: Records | None = None,
    ) -> None:
        """Replies come from `draw`, verdicts from `executor`."""
        self.records = Records() if records is None else records
        self._way = way
        self._draw = draw
        self._executor = executor
        self._clock = clock

    def attempt(self, entries: Sequence[Entry], *, root_seed: int) -> list[Attempted]:
        """One attempt at each entry, all at once; equal entries are a group."""
        found = asyncio.run(self._attempt_all(entries, root_seed))
        for attempted in found:
            if attempted.outcome is not None:
                self.records.note(attempted.entry.id, attempted.outcome.verdict)
        return found

    async def _attempt_all(self, entries: Sequence[Entry], root_seed: int) -> list[Attempted]:
        batch = Batch(self._draw)
        judges = {entry.id: SharedJudging(self._judging(entry)) for entry in entries}
        for _ in entries:
            batch.enter()
        running = [
            self._attempt(entry, place, batch, judges[entry.id], seed_for(root_seed, entry.id))
            for place, entry in enumerate(entries)
        ]
        return list(await asyncio.gather(*running))

    async def _attempt(
        self, entry: Entry, place: int, batch: Batch, judging: Judging, root_seed: int
    ) -> Attempted:
        way = self._way
        model = BatchedModel(
            batch,
            way.template,
            place=place,
            room_tokens=way.room_tokens,
            name="training",
            remembered=way.remembered,
        )
        tools = choose_toolbox(way.ablation)(
            judging, target=way.target, root_seed=root_seed, tools=way.ablation.tools
        )
        prompt = make_prompt(
            entry.task,
            target=way.target,
            mode=way.mode,
            limits=way.limits,
            ablation=tools.restrict(way.ablation),
        )
        try:
            episode = await solve(
                prompt,
                model,
                tools,
                limits=way.limits,
                clock=self._clock,
                trajectory=Trajectory(None, clock=self._clock),
            )
        except MachineError as error:
            return Attempted(
                entry=entry, record=model.record, end=None, outcome=None, loss=str(error)
            )
        finally:
            batch.leave()
        return Attempted(
            entry=entry,
            record=model.record,
            end=episode.end,
            outcome=self._make_outcome(entry, model.record, episode),
            turns=episode.turns,
            kernel=episode.kernel,
        )

    def _make_outcome(self, entry: Entry, record: Record, episode: Episode) -> Outcome:
        return Outcome(
            verdict=episode.verdict,
            baseline_ns=self.records.baseline_ns.get(entry.id),
            best_ns=self.records.best_ns.get(entry.id),
            repeated_calls=record.repeated_calls,
            malformed_calls=record.malformed_calls,
        )

    def _judging(self, entry: Entry) -> Judging:
        return FarmJudging(
            executor=self._executor,
            task=entry.path,
            target=self._way.target,
            is_task_trusted=entry.is_trusted,
        )
