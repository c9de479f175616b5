"""The same task at other sizes in its short prompt, for the same kernel.

Law: shapes stay what the task declares, at other values of its sizes; a prompt whose shapes do not
come from the declared sizes is left as it is. The judge finds a kernel right only if it is so at
more than one choice of sizes, so a kernel of the author takes them from its arguments. Without this
a small model tells its few tasks apart by their sizes and never reads what they compute.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from nki_agent.corpus.record import CorpusTask
from nki_agent.corpus.shape_text import Axes, evaluate
from nki_agent.task.declaration import OUTPUTS
from nki_agent.task.sizes_text import find_sizes
from nki_agent.train.declared import read_tables

_TENSOR = re.compile(r"(?P<head>(?P<name>\w+): \w+ |-> \w+ )\[(?P<shape>[\d, ]*)\](?P<tail>.*)")
_STATIC = re.compile(r"\w+ = .*")
OCTAVES: Final = 1.0
"""How far a size may move, up or down, as a power of two."""
MULTIPLE: Final = 8
LANES: Final = 128
"""A size stays on its side of the partitions, where an author may choose another kernel."""


def resize(row: CorpusTask, user: str, rng: np.random.Generator) -> str | None:
    """The user's message at sizes by chance; None where its shapes do not follow from sizes."""
    shapes = find_sizes(row.source)
    tables = _list_axes(row.source)
    if shapes is None or tables is None:
        return None
    dev = shapes["dev"]
    other = {name: _draw(value, rng) for name, value in dev.items()}
    lines = list(_rewrite(user.splitlines(), tables, dev, other))
    return None if None in lines else "\n".join(line for line in lines if line is not None)


def _rewrite(
    lines: list[str],
    tables: Mapping[str, Axes],
    dev: Mapping[str, int],
    other: Mapping[str, int],
) -> Iterator[str | None]:
    """Each line; None for one that cannot be."""
    outputs = iter([axes for name, axes in tables.items() if name.startswith("->")])
    for line in lines:
        found = _TENSOR.fullmatch(line)
        if found is None:
            yield None if _STATIC.fullmatch(line) and line.split(" = ")[0] in dev else line
            continue
        axes = tables.get(found["name"]) if found["name"] else next(outputs, None)
        if axes is None or found["shape"] != _write(axes, dev):
            yield None
            continue
        yield f"{found['head']}[{_write(axes, other)}]{found['tail']}"


def _write(axes: Axes, sizes: Mapping[str, int]) -> str:
    return ", ".join(str(evaluate(axis, sizes)) for axis in axes)


def _list_axes(source: str) -> dict[str, Axes] | None:
    """The declared axes of each tensor by its name; outputs as `-> name`."""
    tables = read_tables(source)
    if tables is None:
        return None
    return {
        f"-> {name}" if table.name == OUTPUTS else name: tensor.axes
        for table in tables
        for name, tensor in table.tensors.items()
    }


def _draw(value: int, rng: np.random.Generator) -> int:
    """Near a size, and like it: even stays even, small stays small."""
    if value <= MULTIPLE:
        # Such sizes are kernels, groups and steps as often as batches.
        return value
    step = next(n for n in (MULTIPLE, 2, 1) if value % n == 0)
    drawn = round(value * 2 ** rng.uniform(-OCTAVES, OCTAVES) / step) * step
    low, high = (LANES + 1, 16 * LANES) if value > LANES else (step, LANES)
    return max(low + (-low) % step, min(drawn, high - high % step))
