"""Our own tasks at sizes that nobody has seen: a suite made from a secret seed.

Law: the seed and the task's id decide its sizes; `dev` and `perf` stay, and the hidden sizes take
the place of `odd`, which no model is shown. What sizes a task takes is found by trying: of choices
drawn near those of `dev`, the first at which the task loads is taken. An axis of one element is
drawn only where the task has such sizes itself: one head or one group is another operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from nki_agent.base.errors import TaskError
from nki_agent.base.hashes import hash_text
from nki_agent.base.seeds import rng_for
from nki_agent.bench.suite import SCHEMA, Source, Status, Suite, SuiteTask, TaskRow
from nki_agent.task.declaration import DEV, ODD
from nki_agent.task.loader import load_task
from nki_agent.task.sizes_text import find_sizes, put_sizes

TRIES_MAX = 200
"""Choices of sizes that are tried for one task."""
LOW, HIGH = 0.5, 1.5
"""Sizes are drawn between these multiples of those of `dev`."""
ELEMS_FACTOR = 3.0
"""A hidden choice may have so many times the elements of `dev`."""

Sizes = Mapping[str, int]


def hide_suite(suite: Suite, folder: Path, *, seed: int) -> Iterator[TaskRow]:
    """Write a task file for each task into `folder`; a row for each as it is written."""
    for task in suite.tasks:
        source = task.path.read_text(encoding="utf-8")
        found = hide_task(task, source, folder, seed=seed)
        changes = ("odd sizes are hidden ones",) if found is not None else ()
        text = source if found is None else found
        path = folder / f"{task.id}.py"
        path.write_text(text, encoding="utf-8")
        yield TaskRow(
            id=task.id,
            file=path.name,
            sha256=hash_text(text),
            origin=f"{suite.name}/{task.id}",
            level=task.level,
            category=task.category,
            status=Status.FIT,
            changes=changes,
        )


def make_source(suite: Suite, *, seed: int, version: str) -> Source:
    """Where the hidden suite comes from; the hash is of the seed, which it does not tell."""
    return Source(
        schema=SCHEMA,
        name=f"{suite.name}-hidden",
        format="hidden",
        source_sha256=hash_text(f"{suite.hash}:{seed}"),
        limit_elems=0,
        tool_version=version,
    )


def hide_task(task: SuiteTask, source: str, folder: Path, *, seed: int) -> str | None:
    """The file with hidden sizes; None where the task takes no others."""
    shapes = find_sizes(source)
    if shapes is None or DEV not in shapes:
        return None
    trial = folder / f".{task.id}.trial.py"

    def runs(sizes: Sizes) -> bool:
        trial.write_text(put_sizes(source, {DEV: sizes}), encoding="utf-8")
        try:
            load_task(trial)
        except TaskError:
            return False
        finally:
            trial.unlink()
        return True

    ones = frozenset(n for known in shapes.values() for n, size in known.items() if size == 1)
    rng = rng_for(seed, "hidden", task.id)
    sizes = find_hidden(shapes[DEV], runs, rng=rng, ones=ones)
    if sizes is None:
        return None
    others = {name: known for name, known in shapes.items() if name != ODD}
    return put_sizes(source, {**others, ODD: sizes})


def find_hidden(
    dev: Sizes,
    runs: Callable[[Sizes], bool],
    *,
    rng: np.random.Generator,
    ones: frozenset[str] = frozenset(),
) -> Sizes | None:
    """The first choice that runs and is no other's; only those named in `ones` may become 1."""
    for number in range(TRIES_MAX):
        # Sizes that belong together (heads and features) are met by moving fewer of them.
        moved = max(1, len(dev) - number * len(dev) // TRIES_MAX)
        names = set(rng.permutation(list(dev))[:moved].tolist())
        sizes = {
            n: _draw(size, rng, least=1 if n in ones else 2) if n in names else size
            for n, size in dev.items()
        }
        if sizes != dev and _elems(sizes) <= ELEMS_FACTOR * _elems(dev) and runs(sizes):
            return sizes
    return None


def _draw(size: int, rng: np.random.Generator, *, least: int) -> int:
    return int(rng.integers(max(least, int(size * LOW)), int(size * HIGH) + 1, endpoint=True))


def _elems(sizes: Sizes) -> float:
    return float(np.prod([float(size) for size in sizes.values()]))
