"""The same work on tensors of another rank: a training task with more or fewer leading axes.

Law: only the axes that all tensors begin with are replaced, in the declarations and the sizes; the
reference stays letter for letter, and a task whose reference may count axes from the front is left
alone. What comes out is a task like any other: a kernel for it is judged before it is taught.
Without this a small model writes the rank that it has seen with an operator, not the one it is
shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from nki_agent.base.hashes import hash_text
from nki_agent.corpus.record import CorpusTask
from nki_agent.corpus.shape_text import split_shape
from nki_agent.task.sizes_text import find_sizes, put_sizes

TABLES: Final = ("INPUTS", "PARAMETERS", "OUTPUTS")
NAMES: Final = ("B", "C", "H", "S", "T", "G")
RANKS: Final = (2, 3, 4, 5)
SMALL: Final = (2, 9)
"""A new leading axis has at least 2 and less than 9 elements, but for the last one."""
_DECLARED = re.compile(r"(?P<dtype>\w+)\[(?P<axes>[^\]]*)\](?P<rest>.*)")
_COUNTS_AXES = re.compile(
    r"dim=\(?\d|dims=|permute|transpose|flatten|view|reshape|fold|None|\[|conv|pool|roll|flip|pad"
    r"|expand|repeat|cat\(|stack|split|chunk|2d|matmul|@|cum|sort|topk|gather|index|scatter"
)
"""What may mean axes by their place from the front, or other work at another rank."""
_RERANKED = re.compile(r"-r\d$")
_SAFE = re.compile(r"\.shape\[-\d:?\]")

Table = dict[str, re.Match[str]]


def rerank(row: CorpusTask, rng: np.random.Generator) -> CorpusTask | None:
    """The task at another rank, by chance; None where its reference might not allow it."""
    shapes = find_sizes(row.source)
    read = _read_tables(row.source)
    if shapes is None or read is None:
        return None
    tables, body = read
    axes = [split_shape(m["axes"]) for table in tables.values() for m in table.values()]
    whole = max(axes, key=len)
    lead = _find_lead(axes)
    if any(len(one) == 1 and one[0] in lead for one in axes):
        return None
    if not lead or _COUNTS_AXES.search(_SAFE.sub("", body)) or _uses_names(body, lead):
        return None
    ranks = [rank for rank in RANKS if rank != len(whole) and rank > len(whole) - len(lead)]
    rank = ranks[int(rng.integers(len(ranks)))]
    used = {name for one in axes for axis in one for name in re.findall(r"[A-Za-z]\w*", axis)}
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


def _read_tables(source: str) -> tuple[dict[str, Table], str] | None:
    """The declarations of each table by the tensors' names, and the text behind them."""
    found: dict[str, Table] = {}
    last = 0
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=table)], value=value) if table in TABLES:
                texts = ast.literal_eval(value)
                matches = {name: _DECLARED.fullmatch(text) for name, text in texts.items()}
                if None in matches.values():
                    return None
                found[table] = {name: m for name, m in matches.items() if m is not None}
                last = max(last, statement.end_lineno or 0)
            case _:
                pass
    return (found, "\n".join(source.splitlines()[last:])) if found else None


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


def _put_axes(source: str, tables: dict[str, Table], num_lead: int, fresh: Sequence[str]) -> str:
    lines = source.splitlines(keepends=True)
    for statement in reversed(ast.parse(source).body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=table)]) if table in tables:
                entries = ", ".join(
                    f'"{name}": "{_write(match, num_lead, fresh)}"'
                    for name, match in tables[table].items()
                )
                lines[statement.lineno - 1 : statement.end_lineno] = [f"{table} = {{{entries}}}\n"]
            case _:
                pass
    return "".join(lines)


def _write(declared: re.Match[str], num_lead: int, fresh: Sequence[str]) -> str:
    axes = split_shape(declared["axes"])
    # A tensor with one axis that is not a leading one is a row's gain or shift.
    if len(axes) > 1:
        axes = (*fresh, *axes[num_lead:])
    return f"{declared['dtype']}[{', '.join(axes)}]{declared['rest']}"
