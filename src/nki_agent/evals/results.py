"""Reads what an evaluation has written: its config and its attempts, and their scores.

Law: results of different versions are never mixed; a file that was cut off is put right as when the
evaluation goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from nki_agent.agent.ablation import PromptKind
from nki_agent.agent.episode import Limits, Mode
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import SEED_MAX, rng_for, seed_for
from nki_agent.bench.attempt import Attempt, Proof
from nki_agent.bench.scores import Scores, score
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.evals.attempts import read_attempts
from nki_agent.evals.config import SCHEMA, EvalConfig, hash_plain_config

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

    def at(self, target: Target) -> Results:
        """What was found on one target.

        Raises:
            UsageError: the run has not that target.
        """
        if target not in self.config.targets:
            raise UsageError(
                f"`{self.folder}` has no attempts on {target.value}",
                hint=f"it has {', '.join(t.value for t in self.config.targets)}",
            )
        return replace(
            self,
            config=msgspec.structs.replace(self.config, targets=(target,)),
            attempts=tuple(a for a in self.attempts if a.target == target.value),
        )

    @property
    def name(self) -> str:
        """How tables call it."""
        config = self.config
        parts = [config.mode.value]
        if config.surface is not Surface.NKI:
            parts.append(f"surface {config.surface.value}")
        if config.limits.turns not in (1, Limits().turns) and not config.level_turns:
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
    config, config_hash = _read_config(folder)
    attempts = tuple(read_attempts(folder / LINES))
    for attempt in attempts:
        mismatch = find_mismatch(attempt, config, config_hash=config_hash)
        if mismatch:
            raise UsageError(
                f"`{folder}` mixes runs: the attempt of `{clean(attempt.task)}` on"
                f" {clean(attempt.target)} {mismatch}",
                hint=f"{CONFIG} or {LINES} was changed after the run began; put it back as it was",
            )
    return Results(folder=folder, config=config, attempts=attempts)


def find_mismatch(attempt: Attempt, config: EvalConfig, *, config_hash: str) -> str:
    """Why an attempt is none of this config's run; empty where it is one."""
    task = next((t for t in config.tasks if t.id == attempt.task), None)
    if task is None:
        return "is for a task that the config does not name"
    if attempt.target not in {target.value for target in config.targets}:
        return "is for a target that the config does not name"
    if not 0 <= attempt.sample < config.samples:
        return f"is number {attempt.sample}, and the config asks for {config.samples} from 0"
    if attempt.surface is not config.surface:
        return (
            f"is on the surface `{attempt.surface.value}`, and the run on `{config.surface.value}`;"
            " results of two surfaces are never mixed"
        )
    if (attempt.level, attempt.category) != (task.level, task.category):
        return (
            f"has level {attempt.level} and category `{clean(attempt.category)}`, in the config"
            f" {task.level} and `{clean(task.category)}`"
        )
    if attempt.root_seed != seed_for(config.seed, *attempt.key):
        return "has another seed than that of the config gives"
    if attempt.proof is not Proof.UNTRIED and not config.perf:
        return "was tried at the perf shapes, which the config does not ask for"
    if attempt.config_hash not in ("", config_hash):
        return "was made under another config (its model, versions or limits)"
    return ""


def read_config(folder: Path) -> EvalConfig:
    """The config of a run's folder.

    Raises:
        UsageError: it is no evaluation, or of another schema.
    """
    return _read_config(folder)[0]


def _read_config(folder: Path) -> tuple[EvalConfig, str]:
    """The config and the hash of what the file says."""
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
        config = msgspec.convert(plain, EvalConfig)
    except (msgspec.MsgspecError, UnicodeDecodeError, AttributeError) as error:
        raise UsageError(
            f"`{path}` is not the config of an evaluation: {error}",
            hint="name the folder that `nki-agent bench run` made; runs of `solve` are for"
            " `nki-agent report` and `nki-agent resume`",
        ) from error
    if problem := _find_problem(config):
        raise UsageError(f"`{path}` is not the config of an evaluation: {problem}")
    return config, hash_plain_config(plain)


def _find_problem(config: EvalConfig) -> str:
    """What no run was ever asked for; empty where all is well."""
    ids = [task.id for task in config.tasks]
    if len(set(ids)) < len(ids) or len(set(config.targets)) < len(config.targets):
        return "a task or a target is named twice"
    if not config.targets:
        return "it names no target"
    if config.samples < 1 or config.limits.turns < 1:
        return "it asks for less than one attempt or turn"
    if not 0 <= config.seed <= SEED_MAX:
        return f"its seed is not between 0 and {SEED_MAX}"
    return ""


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
        if other.config.surface is not first.config.surface:
            raise UsageError(
                f"`{other.folder}` was made on the surface `{other.config.surface.value}`, and"
                f" `{first.folder}` on `{first.config.surface.value}`",
                hint="compare runs on one surface; such results are never mixed",
            )
        if other.config.tasks != first.config.tasks:
            raise UsageError(
                f"`{other.folder}` has the split {other.config.split}, and `{first.folder}` has "
                f"{first.config.split}",
                hint="compare runs over the same tasks",
            )
