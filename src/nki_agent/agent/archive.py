"""The user's own right kernels, to learn from: an append-only file beside the runs.

Law: only kernels that the judge found right get in. Which of the fitting ones is shown is a seeded
draw in which faster ones are likelier, so two runs with one seed see the same. In an evaluation no
kernel is shown that could answer the task: none of the task's hash, of its name or a variant of it,
or of a reference of the same form.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from nki_agent.agent.cards import find_words
from nki_agent.base.diagnostic import clean
from nki_agent.base.hashes import hash_bytes, hash_text, short_hash
from nki_agent.base.linefile import read_records
from nki_agent.base.seeds import rng_for
from nki_agent.task.task import Task
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Verdict

SCHEMA = 1
"""Raised by every change that an older reader would misread."""
FILE = "archive.jsonl"
KERNELS_MAX = 3
"""Kernels in one answer: one whole, the others by name."""
PERCENT_MIN = 1.0
"""A kernel far under its bound still has a chance."""
DTYPES = re.compile(r"^(?:bf16|fp16|fp32|f32|f16|fp8|int8|int32|\d+d|l\d)$")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One right kernel and what it is for."""

    schema: int = SCHEMA
    id: str
    """Short hash of the kernel: what a model asks for it by."""
    task: str
    task_hash: str
    form: str
    """Hash of the reference without names and sizes."""
    target: str
    about: str
    """The reference's first words."""
    latency_ns: float | None
    percent_of_bound: float | None
    source: str


def keep_kernel(path: Path, kernel: str, *, task: Task, verdict: Verdict) -> None:
    """Add a right kernel to the archive, unless it is there."""
    assert verdict.right
    kept = Kept(
        id=short_hash(Kernel.from_text(kernel).hash),
        task=task.id,
        task_hash=task.hash,
        form=form_of(task.source),
        target=verdict.target,
        about=describe(task),
        latency_ns=verdict.latency_ns,
        percent_of_bound=verdict.percent_of_bound,
        source=kernel,
    )
    known = {(old.id, old.task_hash, old.target) for old in read_records(path, Kept, schema=SCHEMA)}
    if (kept.id, kept.task_hash, kept.target) in known:
        return
    with path.open("ab") as file:
        file.write(msgspec.json.encode(kept) + b"\n")


class Archive:
    """Kernels that may be shown for one task."""

    def __init__(self, kernels: Sequence[Kept], *, root_seed: int) -> None:
        """Draw from these; each query has a seed of its own."""
        self._kernels = tuple(kernels)
        self._root_seed = root_seed

    def __len__(self) -> int:
        """How many may be shown."""
        return len(self._kernels)

    def find(self, query: str) -> tuple[Kept, ...]:
        """Those that fit the words, drawn without return; the one with this id alone, if any."""
        wanted = query.strip().strip("`").lower()
        if named := [kernel for kernel in self._kernels if kernel.id == wanted]:
            return (named[0],)
        words = find_words(query)
        fits = [len(words & find_words(f"{k.task} {k.about}")) for k in self._kernels]
        fitting = [
            (k, fit) for k, fit in zip(self._kernels, fits, strict=True) if fit or not words
        ]
        if not fitting:
            return ()
        weights = np.array(
            [max(k.percent_of_bound or 0.0, PERCENT_MIN) * max(fit, 1) ** 2 for k, fit in fitting]
        )
        rng = rng_for(self._root_seed, "find_kernels", " ".join(sorted(words)))
        count = min(KERNELS_MAX, len(fitting))
        drawn = rng.choice(len(fitting), size=count, replace=False, p=weights / weights.sum())
        return tuple(fitting[int(index)][0] for index in drawn)


def read_archive(
    path: Path, *, target: str, root_seed: int, without: Task | None = None
) -> Archive:
    """The archive for one target; `without` leaves out whatever could answer that task.

    Raises:
        UsageError: the file is no archive of this version.
    """
    kernels = [k for k in read_records(path, Kept, schema=SCHEMA) if k.target == target]
    if without is not None:
        form, name = form_of(without.source), bare_name(without.id)
        kernels = [
            k
            for k in kernels
            if k.task_hash != without.hash and k.form != form and bare_name(k.task) != name
        ]
    return Archive(kernels, root_seed=root_seed)


def hash_archive(path: Path) -> str | None:
    """What a run's config says of the archive that it may read; None without one."""
    return short_hash(hash_bytes(path.read_bytes())) if path.exists() else None


def describe(task: Task) -> str:
    """The first line of the reference's docstring, else its name."""
    try:
        text = ast.get_docstring(ast.parse(task.source)) or task.entry
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        text = task.entry
    return clean(text.strip().splitlines()[0])


def bare_name(task_id: str) -> str:
    """A task's name without level, rank and dtype, so that its variants have the same one.

    >>> bare_name("l2-softmax-rows-bf16")
    'softmax-rows'
    """
    words = re.split(r"[-_]", task_id.lower())
    return "-".join(word for word in words if word and not DTYPES.match(word)) or task_id


def form_of(source: str) -> str:
    """Hash of a reference's operations: names, sizes, dtypes and docstrings don't count."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return short_hash(hash_text(source))
    forms = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for part in ast.walk(node):
                _strip(part)
            forms.append(ast.dump(node))
    return short_hash(hash_text("\n".join(sorted(forms))))


def _strip(node: ast.AST) -> None:
    """Leave of a node what it computes; parents come before their children."""
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
            node.name = "_"
            if isinstance(node, ast.FunctionDef):
                node.returns = None
        case ast.Attribute(value=ast.Name(id="self")):
            node.attr = "_"
        case ast.Name():
            node.id = "_"
        case ast.Constant():
            node.value = 0
        case ast.arg():
            node.arg, node.annotation = "_", None
        case ast.AnnAssign():
            node.annotation = ast.Constant(value=0)
        case _:
            pass
