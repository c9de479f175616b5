"""The experiment's figures, from the records of its seeds.

Law: a share is the mean over held-out tasks of the share of seeds in which a task is solved. Its
interval is a bootstrap over tasks, so seeds of one task are not counted as independent; a
difference is taken task by task. Groups are counted over both arms, before any is left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.experiment.record import Group, SeedRecord, tries_name
from benchmarks.experiment.stages import BASE, MODELS, SFT
from nki_agent.agent.episode import Mode
from nki_agent.base.seeds import rng_for
from nki_agent.bench.intervals import Interval, bootstrap, mean, wilson
from nki_agent.train.evaluate import Try
from nki_agent.train.groups import is_equal

Pick = Callable[[Try], bool]
DISTANCES = ((0.0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1.01))
"""Ranges of the distance to the nearest task that trains: from, and below."""


def every(one: Try) -> bool:
    """All of them."""
    return bool(one.task)


def right(one: Try) -> bool:
    """Solved."""
    return one.is_right


def right_at_once(one: Try) -> bool:
    """Solved by the first reply."""
    return one.is_right and one.turns == 1


def compiled(one: Try) -> bool:
    """Its last kernel could be run."""
    return one.is_compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """How often a reward has no gain, over groups."""

    groups: int
    level_by_compiles: int
    level_by_graded: int
    rescued: int
    """Of those that are level by `compiles`: not level by `graded`."""

    @property
    def rescued_share(self) -> Interval | None:
        """With Wilson's interval; None where there is nothing to rescue."""
        return wilson(self.rescued, self.level_by_compiles) if self.level_by_compiles else None


class Figures:
    """All of them."""

    def __init__(
        self,
        records: Sequence[SeedRecord],
        distances: Mapping[str, float],
        *,
        is_counted: Pick = every,
    ) -> None:
        """Of the held-out tasks that count."""
        self.records = tuple(sorted(records, key=lambda record: record.seed))
        self._is_counted = is_counted
        self._distances = distances

    @property
    def models(self) -> list[str]:
        """Those that every seed has measured in both modes."""
        names = [
            {model for model in MODELS if all(tries_name(model, m) in r.tries for m in Mode)}
            for r in self.records
        ]
        return [model for model in MODELS if all(model in found for found in names)]

    def tasks(self) -> list[str]:
        """The held-out tasks of the level, by id."""
        return sorted(self._by_task(BASE, Mode.SINGLE_SHOT, right))

    def share(self, model: str, mode: Mode, pick: Pick = right) -> Interval:
        """Of the tasks, over all seeds; by Wilson where it is 0, which has no spread."""
        values = list(self._by_task(model, mode, pick).values())
        if not any(values):
            return wilson(0, len(values))
        return _interval(values, model, mode, pick.__name__)

    def of_seed(self, record: SeedRecord, model: str, mode: Mode, pick: Pick = right) -> float:
        """Of the tasks, in one seed."""
        tries = self._tries(record, model, mode)
        return sum(map(pick, tries)) / len(tries)

    def gain(self, first: tuple[str, Mode, Pick], then: tuple[str, Mode, Pick]) -> Interval:
        """How much larger the second share is, task by task."""
        before, after = self._by_task(*first), self._by_task(*then)
        names = [
            name for model, mode, pick in (first, then) for name in (model, mode, pick.__name__)
        ]
        return _interval([after[task] - before[task] for task in after], *names)

    def by_distance(self, model: str, mode: Mode) -> list[tuple[float, float, int, Interval]]:
        """From, below, tasks, share; ranges without tasks are left out."""
        values = self._by_task(model, mode, right)
        found = []
        for low, high in DISTANCES:
            chosen = [v for task, v in values.items() if low <= self._distances[task] < high]
            if chosen:
                found.append((low, high, len(chosen), _interval(chosen, model, mode, low)))
        return found

    def stages(self, model: str, mode: Mode) -> Counter[str]:
        """How far the last kernels came, over all seeds."""
        return Counter(
            "no kernel" if one.stage is None else one.stage.value
            for record in self.records
            for one in self._tries(record, model, mode)
        )

    def families(self, model: str, mode: Mode) -> dict[str, tuple[float, int]]:
        """The share of each family, and its tasks."""
        found: dict[str, list[bool]] = defaultdict(list)
        for record in self.records:
            for one in self._tries(record, model, mode):
                found[one.family].append(one.is_right)
        return {
            family: (sum(values) / len(values), len(values) // len(self.records))
            for family, values in sorted(found.items())
        }

    def count_apart(self) -> int:
        """Tasks that have no part in common with any that is taught."""
        return sum(self._distances[task] >= 1 for task in self.tasks())

    def attempts(self, stage: str) -> tuple[int, float, float]:
        """Of a stage of GRPO: how many, and the shares that compile and that are right."""
        drawn = [group for record in self.records for group in record.groups.get(stage, [])]
        compiles = [paid for group in drawn for paid in group.compiles]
        rights = [paid for group in drawn for paid in group.right]
        number = len(compiles)
        return number, sum(compiles) / max(number, 1), sum(rights) / max(number, 1)

    def groups(self) -> Groups:
        """Over both arms and all seeds."""
        drawn = [g for record in self.records for groups in record.groups.values() for g in groups]
        return count_groups(drawn)

    def _tries(self, record: SeedRecord, model: str, mode: Mode) -> list[Try]:
        return [one for one in record.tries[tries_name(model, mode)] if self._is_counted(one)]

    def _by_task(self, model: str, mode: Mode, pick: Pick) -> dict[str, float]:
        found: dict[str, list[bool]] = defaultdict(list)
        for record in self.records:
            for one in self._tries(record, model, mode):
                found[one.task].append(pick(one))
        return {task: sum(values) / len(values) for task, values in sorted(found.items())}


def count_groups(drawn: Sequence[Group]) -> Groups:
    """How many are level, by each reward."""
    level = [group for group in drawn if is_equal(group.compiles)]
    return Groups(
        groups=len(drawn),
        level_by_compiles=len(level),
        level_by_graded=sum(is_equal(group.graded) for group in drawn),
        rescued=sum(not is_equal(group.graded) for group in level),
    )


def lift(figures: Figures) -> Interval:
    """What SFT adds to the base with the loop."""
    return figures.gain((BASE, Mode.LOOP, right), (SFT, Mode.LOOP, right))


def _interval(values: Sequence[float], *names: object) -> Interval:
    return bootstrap(values, mean, rng=rng_for(0, *map(str, names)))
