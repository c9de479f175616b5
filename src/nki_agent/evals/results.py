"""Reads what an evaluation has written: its config and its attempts, and their scores.

Law: results of different versions are never mixed; a file that was cut off is put right as when the
evaluation goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nki_agent.agent.ablation import PromptKind
from nki_agent.agent.episode import Limits, Mode
from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import rng_for
from nki_agent.bench.attempt import Attempt
from nki_agent.bench.scores import Scores, score
from nki_agent.evals.attempts import read_attempts
from nki_agent.evals.config import SCHEMA, EvalConfig

CONFIG, LINES = "config.json", "attempts.jsonl"
ALL = "all"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one group of tasks on one target."""

    target: str
    kind: str
    """`all`, `level` or `category`."""
    name: str
    scores: Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One evaluation as it is on disk."""

    folder: Path
    config: EvalConfig
    attempts: tuple[Attempt, ...]

    @property
    def name(self) -> str:
        """How tables call it."""
        config = self.config
        parts = [config.mode.value]
        if config.limits.turns not in (1, Limits().turns):
            parts.append(f"{config.limits.turns} turns")
        if not config.ablation.is_whole and config.mode is Mode.LOOP:
            parts.append(str(config.ablation))
        elif config.ablation.prompt is not PromptKind.RANK_AWARE:
            parts.append(f"{config.ablation.prompt.value} prompt")
        if config.archive is not None:
            parts.append("archive")
        return f"{config.model} ({', '.join(parts)})"

    @property
    def num_wanted(self) -> int:
        """Attempts that were asked for."""
        config = self.config
        return len(config.tasks) * len(config.targets) * config.samples

    def groups(self) -> Iterator[Group]:
        """Scores of all tasks, then by level and by category, for each target."""
        for target in self.config.targets:
            attempts = [a for a in self.attempts if a.target == target.value]
            for kind, groups in self._kinds().items():
                for name, tasks in groups.items():
                    rng = rng_for(self.config.seed, "scores", target.value, kind, name)
                    scores = score(tasks, attempts, rng=rng)
                    yield Group(target=target.value, kind=kind, name=name, scores=scores)

    def _kinds(self) -> dict[str, dict[str, list[str]]]:
        """Ids of tasks by kind and name of their group; tasks without an attempt count too."""
        kinds: dict[str, dict[str, list[str]]] = {ALL: {}, "level": {}, "category": {}}
        for task in self.config.tasks:
            for kind, name in ((ALL, ALL), ("level", str(task.level)), ("category", task.category)):
                kinds[kind].setdefault(name, []).append(task.id)
        return kinds


def read_results(folder: Path) -> Results:
    """Read a run's folder.

    Raises:
        UsageError: it is no evaluation, or of another schema.
    """
    config = read_config(folder)
    return Results(folder=folder, config=config, attempts=tuple(read_attempts(folder / LINES)))


def read_config(folder: Path) -> EvalConfig:
    """The config of a run's folder.

    Raises:
        UsageError: it is no evaluation, or of another schema.
    """
    path = folder / CONFIG
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"`{folder}` is no evaluation: {path.name}: {error.strerror}",
            hint="name the folder that `nki-agent bench run` made",
        ) from error
    try:
        plain = msgspec.json.decode(data)
        if plain.get("schema") != SCHEMA:
            raise UsageError(
                f"`{path}` has schema {plain.get('schema')}, and this version reads {SCHEMA}",
                hint=f"use the version that made it: {plain.get('tool', 'unknown')}",
            )
        return msgspec.convert(plain, EvalConfig)
    except (msgspec.MsgspecError, AttributeError) as error:
        raise UsageError(f"`{path}` is not the config of an evaluation: {error}") from error


def require_comparable(results: Sequence[Results]) -> None:
    """Raise UsageError where figures of these may not stand beside each other."""
    first = results[0]
    for other in results[1:]:
        for field in msgspec.structs.fields(type(first.config.versions)):
            left = getattr(first.config.versions, field.name)
            right = getattr(other.config.versions, field.name)
            if left != right:
                raise UsageError(
                    f"`{other.folder}` was made under another {field.name.replace('_', ' ')} "
                    f"({right}) than `{first.folder}` ({left})",
                    hint="run both under one version; such results are never mixed",
                )
        theirs, ours = (found.config.prompts or "unknown" for found in (other, first))
        if theirs != ours:
            raise UsageError(
                f"`{other.folder}` was made with other prompts ({theirs}) than `{first.folder}`"
                f" ({ours})",
                hint="run both under one version; such results are never mixed",
            )
        if other.config.tasks != first.config.tasks:
            raise UsageError(
                f"`{other.folder}` has the split {other.config.split}, and `{first.folder}` has "
                f"{first.config.split}",
                hint="compare runs over the same tasks",
            )
