"""What is kept of a seed when its run folder is gone: enough for every figure of the page.

Law: a record is read from the run folder alone and holds no kernel, no path and no time of day;
a stage that is not done yet has no entry.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.experiment.stages import MODELS, REWARDS, SFT, grpo_name
from nki_agent.agent.episode import Mode
from nki_agent.base.jsonl import read_lines
from nki_agent.train.evaluate import Try
from nki_agent.train.folder import TrainingFolder

MEASURES: Final = ("loss", "reward", "right", "compiled", "mean_token_accuracy")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts at one task in one step of GRPO, by what each reward pays."""

    step: int
    task: str
    compiles: list[float]
    graded: list[float]
    right: list[float]


class SeedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A seed."""

    seed: int
    parameters: int
    tries: dict[str, list[Try]]
    """By `<model>-<mode>`."""
    groups: dict[str, list[Group]]
    """By stage: every group that was drawn, before anything is left out."""
    curves: dict[str, dict[str, list[tuple[int, float]]]]
    """By stage and measure: step and value."""
    wall_s: dict[str, float]
    """By stage, of the clock."""
    cpu_s: dict[str, float]
    """By stage, of the processors, its judges included."""
    memory_gib: float
    """The most that one of its commands held, its judges apart."""


def tries_name(model: str, mode: Mode) -> str:
    """The name of an evaluation."""
    return f"{model}-{mode.value}"


def read_record(folder: Path, *, seed: int) -> SeedRecord:
    """What a seed's folder holds."""
    tries: dict[str, list[Try]] = {}
    for model in MODELS:
        for mode in Mode:
            path = folder / "evaluations" / f"{tries_name(model, mode)}.jsonl"
            if path.exists():
                tries[tries_name(model, mode)] = sorted(
                    (msgspec.convert(line, Try) for line in read_lines(path)),
                    key=lambda one: one.task,
                )
    stages = list(read_lines(folder / "stages.jsonl"))
    wall_s: dict[str, float] = defaultdict(float)
    cpu_s: dict[str, float] = defaultdict(float)
    for line in stages:
        wall_s[line["stage"]] += line["wall_s"]
        cpu_s[line["stage"]] += line["cpu_s"]
    trained = [name for name in MODELS if (folder / name / "summary.json").exists()]
    summary = msgspec.json.decode((folder / SFT / "summary.json").read_bytes())
    return SeedRecord(
        seed=seed,
        parameters=summary["parameters"],
        tries=tries,
        groups={
            grpo_name(reward): _read_groups(TrainingFolder(folder / grpo_name(reward)))
            for reward in REWARDS
            if grpo_name(reward) in trained
        },
        curves={name: _read_curves(TrainingFolder(folder / name)) for name in trained},
        wall_s=dict(wall_s),
        cpu_s=dict(cpu_s),
        memory_gib=max(line["memory_gib"] for line in stages),
    )


def write_record(record: SeedRecord, path: Path) -> None:
    """As JSON with a line for each entry, so that a change of it can be read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(record) + b"\n")


def load_record(path: Path) -> SeedRecord:
    """One that was written."""
    return msgspec.json.decode(path.read_bytes(), type=SeedRecord)


def _read_groups(folder: TrainingFolder) -> list[Group]:
    drawn: dict[tuple[int, str], list[dict[str, float]]] = defaultdict(list)
    for line in read_lines(folder.attempts):
        if line["rewards"]:
            drawn[line["step"], line["task"]].append(line["rewards"])
    return [
        Group(
            step=step,
            task=task,
            compiles=[paid["compiles"] for paid in rewards],
            graded=[round(paid["graded"], 6) for paid in rewards],
            right=[paid["right"] for paid in rewards],
        )
        for (step, task), rewards in drawn.items()
    ]


def _read_curves(folder: TrainingFolder) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for line in folder.read_measures():
        for name in MEASURES:
            if name in line:
                found[name].append((line["step"], round(line[name], 5)))
    return dict(found)
