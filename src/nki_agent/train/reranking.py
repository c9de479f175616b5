"""The same work on tensors of another rank: a training task with more or fewer leading axes.

Law: only the axes that all tensors begin with are replaced, in the declarations and the sizes; the
reference stays letter for letter, and a task whose reference may count axes from the front is left
alone. What comes out is a task like any other: a kernel for it is judged before it is taught.
Without this a small model writes the rank that it has seen with an operator, not the one it is
shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from nki_agent.base.hashes import hash_text
from nki_agent.corpus.record import CorpusTask
from nki_agent.corpus.shape_text import names_in
from nki_agent.task.sizes_text import find_sizes, put_sizes
from nki_agent.train.declared import Table, Tensor, read_tables

NAMES: Final = ("B", "C", "H", "S", "T", "G")
RANKS: Final = (2, 3, 4, 5)
SMALL: Final = (2, 9)
"""A new leading axis has at least 2 and less than 9 elements, but for the last one."""
_COUNTS_AXES = re.compile(
    r"dim=\(?\d|dims=|permute|transpose|flatten|view|reshape|fold|None|\[|conv|pool|roll|flip|pad"
    r"|expand|repeat|cat\(|stack|split|chunk|2d|matmul|@|cum|sort|topk|gather|index|scatter"
)
"""What may mean axes by their place from the front, or other work at another rank."""
_RERANKED = re.compile(r"-r\d(?:-n[0-9a-f]{4})?$")
_SAFE = re.compile(r"\.shape\[-\d:?\]")


def rerank(row: CorpusTask, rng: np.random.Generator) -> CorpusTask | None:
    """The task at another rank, by chance; None where its reference might not allow it."""
    shapes = find_sizes(row.source)
    tables = read_tables(row.source)
    if shapes is None or not tables:
        return None
    body = "\n".join(row.source.splitlines()[tables[-1].last :])
    axes = [tensor.axes for table in tables for tensor in table.tensors.values()]
    whole = max(axes, key=len)
    lead = _find_lead(axes)
    if any(len(one) == 1 and one[0] in lead for one in axes):
        return None
    if not lead or _COUNTS_AXES.search(_SAFE.sub("", body)) or _uses_names(body, lead):
        return None
    ranks = [rank for rank in RANKS if rank != len(whole) and rank > len(whole) - len(lead)]
    rank = ranks[int(rng.integers(len(ranks)))]
    used = {name for one in axes for axis in one for name in names_in(axis)}
    fresh = [name for name in NAMES if name not in used][: rank - len(whole) + len(lead)]
    if len(fresh) < rank - len(whole) + len(lead):
        return None
    sizes = {name: _change_sizes(found, lead, fresh, rng) for name, found in shapes.items()}
    source = put_sizes(_put_axes(row.source, tables, len(lead), fresh), sizes)
    return msgspec.structs.replace(
        row, id=f"{row.id}-r{rank}", source=source, sha256=hash_text(source), rank=rank
    )


def is_reranked(task_id: str) -> bool:
    """Whether an id is that of a task at another rank."""
    return _RERANKED.search(task_id) is not None


def _find_lead(axes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The axes that every tensor with more than one begins with, short of the longest's last."""
    whole = max(axes, key=len)
    lead = whole[:-1]
    for one in axes:
        if len(one) > 1 or (one and one[0] == whole[0]):
            both = zip(lead, one, strict=False)
            lead = lead[: next((i for i, (a, b) in enumerate(both) if a != b), len(one))]
    rest = {name for one in axes for axis in one[len(lead) :] for name in re.findall(r"\w+", axis)}
    plain = all(axis.isidentifier() and axis not in rest for axis in lead)
    return lead if plain and len(set(lead)) == len(lead) else ()


def _uses_names(body: str, lead: Sequence[str]) -> bool:
    """Whether a size that would go is named behind the declarations, as by a constructor."""
    return any(re.search(rf"\b{name}\b", body) for name in lead)


def _change_sizes(
    sizes: Mapping[str, int],
    lead: Sequence[str],
    fresh: Sequence[str],
    rng: np.random.Generator,
) -> dict[str, int]:
    """About as many elements as before, spread over the new axes."""
    left = int(np.prod([sizes[name] for name in lead]))
    found = {}
    for name in fresh[:-1]:
        found[name] = min(int(rng.integers(*SMALL)), max(left // 2, 1))
        left = max(left // found[name], 1)
    found[fresh[-1]] = left
    return {**found, **{name: size for name, size in sizes.items() if name not in lead}}


def _put_axes(source: str, tables: Sequence[Table], num_lead: int, fresh: Sequence[str]) -> str:
    lines = source.splitlines(keepends=True)
    for table in reversed(tables):
        entries = ", ".join(
            f'"{name}": "{_change(tensor, num_lead, fresh)}"'
            for name, tensor in table.tensors.items()
        )
        lines[table.first - 1 : table.last] = [f"{table.name} = {{{entries}}}\n"]
    return "".join(lines)


def _change(tensor: Tensor, num_lead: int, fresh: Sequence[str]) -> Tensor:
    # A tensor with one axis that is not a leading one is a row's gain or shift.
    if len(tensor.axes) <= 1:
        return tensor
    return replace(tensor, axes=(*fresh, *tensor.axes[num_lead:]))
