"""The rows of the corpus as they are stored.

Law: a row is found by its `id`, which comes from what the task is, never from its place in a list.
All variants of one graph (other sizes, other dtypes) are in one split.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

SCHEMA = 1
"""Raised by every change that an older reader would misread."""


class Family(StrEnum):
    """What kind of work a task is; each has a quota."""

    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    NORM = "norm"
    SOFTMAX = "softmax"
    MATMUL = "matmul"
    ATTENTION = "attention"
    CONV = "conv"
    POOL = "pool"
    LAYOUT = "layout"
    GATHER = "gather"
    SORT = "sort"
    SCAN = "scan"
    LOSS = "loss"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    QUANTISED = "quantised"
    BLOCK = "block"


class BoundKind(StrEnum):
    """What bounds a task's latency at its perf shapes on trn2."""

    MATMUL = "matmul"
    VECTOR = "vector"
    MEMORY = "memory"


class Split(StrEnum):
    """Which part of the corpus a task is in; all variants of a graph are in the same."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class Origin(StrEnum):
    """Who wrote the task."""

    GRAMMAR = "grammar"
    MODEL = "model"


class CorpusTask(msgspec.Struct, frozen=True, kw_only=True):
    """One training task. `source` is a whole task file in the declared form."""

    schema: int = SCHEMA
    id: str
    """`c-<family>-<slug>-<six digits of the source's hash>`."""
    source: str
    sha256: str
    """Of `source`."""
    family: Family
    pattern: str
    """The fusion pattern of the grammar that it was drawn from."""
    operators: tuple[str, ...]
    """The grammar's names of its operators, in the order of the computation."""
    level: int
    """1: one operator. 2: several, fused. 3: a block of a model."""
    rank: int
    """The highest rank of a tensor."""
    dtype: str
    """Of the first input."""
    tolerance: str
    bound: BoundKind
    bound_ns: float
    """The bound on the latency at the perf shapes on trn2."""
    graph: str
    """The canonical hash of the computation without sizes and dtypes."""
    split: Split
    origin: Origin = Origin.GRAMMAR


class Reason(StrEnum):
    """Why a candidate is not in the corpus, in the order in which filters look."""

    FAILS = "fails"
    NOT_FINITE = "not finite"
    NOISY = "noisy"
    CONSTANT = "constant"
    IGNORES_INPUT = "ignores an input"
    SATURATED = "saturated"
    REDUNDANT = "redundant step"
    BOUND = "bound out of range"
    EXACT_DUPLICATE = "exact duplicate"
    STRUCTURAL_DUPLICATE = "structural duplicate"
    NEAR_DUPLICATE = "near duplicate"
    BENCHMARK = "in a benchmark"
    QUOTA = "quota full"


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that was turned away, and what it met."""

    id: str
    family: Family
    pattern: str
    reason: Reason
    detail: str
    """One line: the figure found and the one allowed, or the id of what it repeats."""


class Solution(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that was judged right for a task."""

    schema: int = SCHEMA
    task: str
    task_hash: str
    """The judge's hash of the task."""
    task_sha256: str
    """Of the task's source, as its row has it."""
    kernel: str
    kernel_sha256: str
    author: str
    """The model that wrote it: `builtin` or a `--model`."""
    dialect: str
    target: str
    latency_ns: float
    """At the dev shapes, where it was judged."""
    percent_of_bound: float
    perf_latency_ns: float | None = None
    """At the perf shapes, where values are not compared; None where it does not fit there."""
    perf_percent_of_bound: float | None = None
    root_seed: str
    """The seed that its verdict was made with."""
    tool_version: str


class Unsolved(msgspec.Struct, frozen=True, kw_only=True):
    """A task for which an author has no right kernel, and why."""

    schema: int = SCHEMA
    task: str
    task_sha256: str
    author: str
    dialect: str
    target: str
    node: str
    """The operator that it can't write; the stage of the verdict where it wrote a wrong kernel."""
    reason: str
    """One line."""
    tool_version: str
