"""Made-up sizes of a task, at which what a kernel says of sizes is tried before it is said.

Law: with the sizes of a task alone, an expression may fit by chance: at three shape sets, `2 * M`
and `M + N` may be one number. Probes have sizes that are as unlike as the reference allows, always
the same for the same file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import rng_for
from nki_agent.task.declaration import DEV
from nki_agent.task.sizes_text import find_sizes
from nki_agent.task.task import ShapeSet, Task

NUM_PROBES = 2
LOW, HIGH = 0.6, 1.8
"""A size is drawn between these multiples of the one at dev."""
FACTORS = (2, 3)
"""Where others break the reference (a head must divide its features), a size is multiplied."""

Sizes = Mapping[str, int]


def make_probes(task: Task) -> Iterator[ShapeSet]:
    """The task at sizes of nobody's; nothing where it takes no others than its own."""
    declared = find_sizes(task.source)
    if task.resize is None or declared is None:
        return
    dev = declared[DEV]
    for number in range(NUM_PROBES):
        rng = rng_for(0, "probe", task.hash, number)
        drawn = {name: _draw(_typical(declared, name), rng) for name in dev}
        found = _try(task, drawn)
        if found is not None:
            yield found
            continue
        found = _move_one_by_one(task, dev, drawn)
        if found is not None:
            yield found


def _move_one_by_one(task: Task, dev: Sizes, drawn: Sizes) -> ShapeSet | None:
    """Each size moved as far as the reference allows while those before it are moved."""
    sizes, found = dict(dev), None
    for name, size in dev.items():
        for value in (drawn[name], *(size * factor for factor in FACTORS)):
            moved = _try(task, {**sizes, name: value})
            if moved is not None:
                sizes[name], found = value, moved
                break
    return found


def _try(task: Task, sizes: Sizes) -> ShapeSet | None:
    assert task.resize is not None
    try:
        return task.resize(sizes)
    except TaskError:
        return None


def _typical(declared: Mapping[str, Sizes], name: str) -> int:
    """The size at dev; where that is one, the smallest other: a single batch hides its stride."""
    size = declared[DEV][name]
    others = [sizes[name] for sizes in declared.values() if sizes[name] > 1]
    return min(others) if size == 1 and others else size


def _draw(size: int, rng: np.random.Generator) -> int:
    # A size of two or more never becomes one: an axis of length one is another graph.
    low = max(min(size, 2), int(size * LOW))
    return int(rng.integers(low, max(low, int(size * HIGH)), endpoint=True))
