"""A small corpus: tasks of the benchmark as rows, and one that the built-in author refuses."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from nki_agent.base.hashes import hash_text
from nki_agent.bench.suite import builtin_suite
from nki_agent.chip.spec import Target
from nki_agent.corpus.record import BoundKind, CorpusTask, Family, Split
from nki_agent.corpus.solving import Progress, Solving
from nki_agent.corpus.stored import read_tasks

REFUSED = '''"""The inverse of a matrix, for which there is no rule."""

import torch
from torch import nn

SHAPES = {"dev": {"M": 8}, "perf": {"M": 64}}
INPUTS = {"x": "float32[M, M]"}
OUTPUTS = {"y": "float32[M, M]"}
TOLERANCE = "F3"


class Model(nn.Module):
    """The inverse, of what is near to the identity."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Away from singular matrices."""
        return torch.linalg.inv(x * 0.01 + torch.eye(x.shape[0], dtype=x.dtype))
'''
SPLITS = (Split.TRAIN, Split.VALIDATION, Split.TEST)


def make_row(
    task_id: str, source: str, *, family: Family = Family.ELEMENTWISE, split: Split = Split.TRAIN
) -> CorpusTask:
    """A row of the corpus; what nobody reads here is made up."""
    return CorpusTask(
        id=task_id,
        source=source,
        sha256=hash_text(source),
        family=family,
        pattern="one",
        operators=(),
        level=1,
        rank=2,
        dtype="float32",
        tolerance="F2",
        bound=BoundKind.MEMORY,
        bound_ns=1.0,
        graph=hash_text(task_id),
        split=split,
    )


def bench_row(task_id: str, *, split: Split = Split.TRAIN) -> CorpusTask:
    """A task of the benchmark as a row."""
    entry = builtin_suite().find_task(task_id)
    return make_row(task_id, entry.path.read_text(encoding="utf-8"), split=split)


def write_corpus(folder: Path, rows: Sequence[CorpusTask]) -> Path:
    """A folder with these tasks."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [msgspec.json.encode(row) + b"\n" for row in rows]
    (folder / "tasks.jsonl").write_bytes(b"".join(lines))
    return folder


def solve(folder: Path, *, workers: int = 1, limit: int | None = None) -> Progress:
    """Let the author solve a corpus."""
    solving = Solving(
        folder=folder,
        tasks=read_tasks(folder).good,
        target=Target.TRN2,
        root_seed=0,
        workers=workers,
        limit=limit,
    )
    return solving.carry_out(watch=lambda _: None, warn=lambda _: None)
