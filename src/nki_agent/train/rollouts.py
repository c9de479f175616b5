"""What GRPO learns from in one step: attempts in groups, their rewards, and their tokens.

Law: rows are given back in the trainer's order, a group's attempts side by side; what is left out
of the loss has no token that counts. Everything drawn is written down, also what was not picked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from nki_agent.base.clock import Clock
from nki_agent.base.jsonl import append_line, read_lines
from nki_agent.base.seeds import seed_for
from nki_agent.farm.executor import Executor
from nki_agent.train.attempts import Attempted, Records, Way, Workbench
from nki_agent.train.batched import Drawn
from nki_agent.train.config import GrpoConfig
from nki_agent.train.folder import TrainingFolder
from nki_agent.train.groups import is_equal, pick, value_of
from nki_agent.train.outcome import Outcome
from nki_agent.train.reward import REWARDS, find_reward
from nki_agent.train.shelf import Entry, Shelf
from nki_agent.verify.verdict import Stage


class AttemptLine(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as it is written down."""

    step: int
    task: str
    picked: bool
    stage: Stage | None
    end: str
    turns: int
    tokens: int
    latency_ns: float | None
    rewards: dict[str, float]
    """What each reward would have paid; empty for an attempt that the machine lost."""
    loss: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The attempts at one task that a step learns from."""

    picked: list[Attempted]
    rewards: list[float | None]
    is_dropped: bool


class Rollouts:
    """Makes the attempts of each step; `roll_out` and `pay` are what TRL calls."""

    def __init__(
        self,
        config: GrpoConfig,
        way: Way,
        shelf: Shelf,
        *,
        executor: Executor,
        clock: Clock,
        folder: TrainingFolder,
    ) -> None:
        """Kernels are judged by `executor`."""
        self._config = config
        self._way = way
        self._shelf = shelf
        self._rows = {row.id: row for row in shelf.rows}
        self._executor = executor
        self._clock = clock
        self._folder = folder
        self._reward = find_reward(config.reward)
        self._has_begun = False
        self._measures: list[tuple[str, float]] = []
        self._records = Records(baseline_ns=shelf.find_baselines(config.target.value))

    def _remember(self) -> None:
        """Take the best latencies from the lines of earlier steps, once."""
        if self._has_begun:
            return
        self._has_begun = True
        if not self._folder.attempts.exists():
            return
        best = self._records.best_ns
        for raw in read_lines(self._folder.attempts):
            line = msgspec.convert(raw, AttemptLine)
            if line.stage is Stage.RIGHT and line.latency_ns is not None:
                best[line.task] = min(line.latency_ns, best.get(line.task, line.latency_ns))

    def roll_out(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Tokens and rewards for the tasks that `prompts` name, each as often as it is there."""
        self._remember()
        size = self._config.attempts
        step = int(trainer.state.global_step)
        entries = [self._shelf.take(self._rows[prompt]) for prompt in prompts[::size]]
        bench = Workbench(
            self._way,
            partial(draw_with, trainer),
            self._executor,
            clock=self._clock,
            records=self._records,
        )
        groups = self._make_groups(bench, entries, step)
        if all(group.is_dropped for group in groups):
            # With nothing left the loss would have no tokens; the gains are all 0 as it is.
            groups = [replace(group, is_dropped=False) for group in groups]
        self._measures = list(_measure(groups))
        return _to_columns(groups)

    def pay(
        self, *, reward: list[float | None], log_metric: Callable[[str, float], None], **_: Any
    ) -> list[float | None]:
        """The rewards that `roll_out` has found already; its measures go into the trainer's log."""
        for name, value in self._measures:
            log_metric(name, value)
        return reward

    def _make_groups(self, bench: Workbench, entries: list[Entry], step: int) -> list[Group]:
        """Draw attempts until each group has both outcomes, as often as the config allows."""
        drawn: dict[str, list[Attempted]] = {entry.id: [] for entry in entries}
        for round_ in range(max(self._config.groups.oversample, 1)):
            wanting = [e for e in entries if round_ == 0 or self._is_equal(drawn[e.id])]
            if not wanting:
                break
            seed = seed_for(self._config.seed, "step", step, round_)
            attempts = [entry for entry in wanting for _ in range(self._config.attempts)]
            for attempted in bench.attempt(attempts, root_seed=seed):
                drawn[attempted.entry.id].append(attempted)
        return [self._settle(drawn[entry.id], step) for entry in entries]

    def _is_equal(self, attempts: Sequence[Attempted]) -> bool:
        return is_equal([self._value(a) for a in attempts])

    def _value(self, attempted: Attempted) -> float | None:
        outcome = attempted.outcome
        reward = None if outcome is None else self._reward(outcome)
        return value_of(outcome, reward, self._config.groups.outcome)

    def _settle(self, attempts: list[Attempted], step: int) -> Group:
        places = pick([self._value(a) for a in attempts], self._config.attempts)
        picked = [attempts[i] for i in places]
        for place, attempted in enumerate(attempts):
            line = make_line(attempted, step=step, picked=place in places)
            append_line(self._folder.attempts, line)
        rewards = [None if a.outcome is None else self._reward(a.outcome) for a in picked]
        is_dropped = self._config.groups.drop_equal and is_equal(rewards)
        return Group(picked=picked, rewards=rewards, is_dropped=is_dropped)


def draw_with(trainer: Any, prompts: Sequence[Sequence[int]], *, turn: int) -> list[Drawn]:
    """What the trainer's model writes, by vLLM or transformers, as its config says."""
    del turn  # Its chance goes on from draw to draw.
    ids, logprobs = trainer._generate_single_turn([list(p) for p in prompts], None, {}, 1)
    known = [None] * len(ids) if logprobs is None else logprobs
    return [Drawn(ids=list(i), logprobs=p) for i, p in zip(ids, known, strict=True)]


def make_line(attempted: Attempted, *, step: int, picked: bool) -> AttemptLine:
    """An attempt for the run's folder."""
    outcome = attempted.outcome
    verdict = None if outcome is None else outcome.verdict
    return AttemptLine(
        step=step + 1,
        task=attempted.entry.id,
        picked=picked,
        stage=None if verdict is None else verdict.stage,
        end="" if attempted.end is None else attempted.end.value,
        turns=attempted.turns,
        tokens=len(attempted.record.ids),
        latency_ns=None if outcome is None else outcome.right_ns,
        rewards={} if outcome is None else {n: pay(outcome) for n, pay in REWARDS.items()},
        loss=attempted.loss,
    )


def _measure(groups: Sequence[Group]) -> Iterator[tuple[str, float]]:
    """What a step's log says of its groups."""
    outcomes = [a.outcome for group in groups for a in group.picked if a.outcome is not None]
    yield "equal_groups", _share([is_equal(g.rewards) for g in groups])
    yield "right", _mean([REWARDS["right"](outcome) for outcome in outcomes])
    yield "compiled", _mean([REWARDS["compiles"](outcome) for outcome in outcomes])
    for name in REWARDS:
        paid = [[_paid(name, a.outcome) for a in group.picked] for group in groups]
        yield f"equal_groups/{name}", _share([is_equal(values) for values in paid])


def _to_columns(groups: Sequence[Group]) -> dict[str, Any]:
    rows = [
        (attempted.record, reward, group.is_dropped)
        for group in groups
        for attempted, reward in zip(group.picked, group.rewards, strict=True)
    ]
    logprobs = [record.logprobs for record, _, _ in rows]
    return {
        "prompt_ids": [record.prompt_ids for record, _, _ in rows],
        "completion_ids": [record.ids for record, _, _ in rows],
        "env_mask": [
            [0] * len(record.ids) if is_dropped else record.is_own for record, _, is_dropped in rows
        ],
        "logprobs": None if any(p is None for p in logprobs) else logprobs,
        "reward": [reward for _, reward, _ in rows],
    }


def _paid(name: str, outcome: Outcome | None) -> float | None:
    return None if outcome is None else REWARDS[name](outcome)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _share(values: Sequence[bool]) -> float:
    return _mean([float(v) for v in values])
