"""Writes bench/tasks.toml (the index) and bench/splits.toml from the table of the benchmark.

Law: the same table gives the same files. A split is frozen by its hash: `--check` only compares,
and one that would change needs another version of the benchmark. Splits take as many tasks of each
level, and of each category in it, as their share asks for, and among those the ones with the lowest
hash of their id, which says nothing about what they are.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nki_agent.bench.splits import hash_split  # noqa: E402
from nki_agent.bench.suite import INDEX  # noqa: E402
from tests.bench.table import Row, read_rows  # noqa: E402

VERSION = "1"
"""Of the benchmark: raised where a task, a split or a tolerance changes."""
SPLITS = {"full-250": 250, "stratified-150": 150, "stratified-60": 60, "smoke-12": 12}
NS_PER_MS = 1e6


def write_index(rows: Sequence[Row]) -> Iterator[str]:
    """`tasks.toml`: id, level, category, and the literature's peak time in ns by target."""
    yield "# Made by scripts/make_bench.py from the benchmark's table; don't edit."
    yield f'version = "{VERSION}"'
    for row in rows:
        peaks = {t: float(row.cells[f"roof_ms_{t}"]) * NS_PER_MS for t in ("trn1", "trn2")}
        yield ""
        yield "[[task]]"
        yield f'id = "{row.task_id}"'
        yield f"level = {row.cells['level']}"
        yield f'category = "{row.cells["category"].replace("_", " ")}"'
        yield f"peak_ns = {{ trn1 = {peaks['trn1']:.1f}, trn2 = {peaks['trn2']:.1f} }}"


def choose(rows: Sequence[Row], size: int) -> list[str]:
    """The ids of a split, in the order of the table."""
    groups: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row.cells["level"]][row.cells["category"]].append(row.task_id)
    levels = allot({level: sum(map(len, g.values())) for level, g in groups.items()}, size)
    chosen = set()
    for level, categories in groups.items():
        counts = allot({name: len(ids) for name, ids in categories.items()}, levels[level])
        for name, ids in categories.items():
            chosen |= set(sorted(ids, key=_order)[: counts[name]])
    return [row.task_id for row in rows if row.task_id in chosen]


def allot(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """`total` over groups in proportion to their sizes, the largest remainders first."""
    share = total / sum(sizes.values())
    counts = {name: int(size * share) for name, size in sizes.items()}
    left = sorted(sizes, key=lambda name: (counts[name] - sizes[name] * share, _order(name)))
    for name in left[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _order(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_splits(rows: Sequence[Row]) -> Iterator[str]:
    """`splits.toml`: the ids of each split and their hash."""
    yield "# Made by scripts/make_bench.py; frozen: changes need another version of the benchmark."
    yield f'version = "{VERSION}"'
    for name, size in SPLITS.items():
        tasks = choose(rows, size)
        yield ""
        yield "[[split]]"
        yield f'name = "{name}"'
        yield f'hash = "{hash_split(tasks)}"'
        yield "tasks = ["
        yield from (f'    "{task}",' for task in tasks)
        yield "]"


def make_files() -> dict[Path, str]:
    """Every file with its text."""
    rows = read_rows()
    return {
        INDEX: "\n".join(write_index(rows)) + "\n",
        INDEX.with_name("splits.toml"): "\n".join(write_splits(rows)) + "\n",
    }


def main() -> int:
    """Write the files, or say which are stale."""
    stale = [
        path
        for path, text in make_files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        print("\n".join(f"stale: {path.relative_to(ROOT)}" for path in stale), end="")
        return 1 if stale else 0
    for path in stale:
        path.write_text(make_files()[path], encoding="utf-8")
    print(f"{len(stale)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
