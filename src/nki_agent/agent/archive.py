"""The user's own right kernels, to learn from: those of the runs of `solve` in a folder.

Law: only kernels that the judge found right count. Which of the fitting ones is shown is a seeded
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

from nki_agent.agent.folder import RunFolder
from nki_agent.agent.words import find_words
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.base.seeds import rng_for
from nki_agent.task.task import Task
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Verdict

RUNS_MAX = 500
"""Runs that are read, by their date: some tenths of a second."""
KERNELS_MAX = 3
"""Kernels in one answer: one whole, the others by name."""
PERCENT_MIN = 1.0
"""A kernel far under its bound still has a chance."""
DTYPES = re.compile(r"^(?:bf16|fp16|fp32|f32|f16|fp8|int8|int32|\d+d|l\d)$")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One right kernel and what it is for."""

    id: str
    """Short hash of the kernel: what a model asks for it by."""
    task: str
    task_hash: str
    form: str
    """Hash of the reference without names and sizes."""
    target: str
    about: str
    """The reference's first words."""
    percent_of_bound: float | None
    source: str


def read_archive(folder: Path, *, before: int | None = None) -> tuple[Kept, ...]:
    """The right kernels of every run of `solve` in a folder, each kernel of a task once.

    What is no whole run of this version is passed over; of very many runs, the latest count. With
    `before`, a time in ns, only those whose verdict is older: names tell the day alone.

    Raises:
        UsageError: there is no such folder.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise UsageError(
            f"cannot read the archive `{folder}`: {error.strerror}",
            hint="name a folder of runs that `nki-agent solve` has made",
        ) from error
    runs = [path for path in found if before is None or _is_older(path, before)][-RUNS_MAX:]
    kept: dict[tuple[str, str, str], Kept] = {}
    for run in map(RunFolder, runs):
        if (kernel := _read_run(run)) is not None:
            kept.setdefault((kernel.id, kernel.task_hash, kernel.target), kernel)
    return tuple(kept.values())


def _is_older(run: Path, before: int) -> bool:
    try:
        return RunFolder(run).verdict.stat().st_mtime_ns < before
    except OSError:
        return False


def _read_run(run: RunFolder) -> Kept | None:
    try:
        verdict = msgspec.json.decode(run.verdict.read_bytes(), type=Verdict)
        task, kernel = (path.read_text(encoding="utf-8") for path in (run.task, run.kernel))
    except (OSError, UnicodeDecodeError, msgspec.MsgspecError):
        return None
    if not verdict.right or verdict.hashes.kernel != Kernel.from_text(kernel).hash:
        return None
    return Kept(
        id=short_hash(verdict.hashes.kernel),
        task=clean(verdict.task),
        task_hash=verdict.hashes.task,
        form=form_of(task),
        target=verdict.target,
        about=describe(task, name=verdict.task),
        percent_of_bound=verdict.percent_of_bound,
        source=kernel,
    )


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
        fitting = [(k, fit) for k, fit in zip(self._kernels, fits, strict=True) if fit or not words]
        if not fitting:
            return ()
        weights = np.array(
            [max(k.percent_of_bound or 0.0, PERCENT_MIN) * max(fit, 1) ** 2 for k, fit in fitting]
        )
        rng = rng_for(self._root_seed, "find_kernels", " ".join(sorted(words)))
        count = min(KERNELS_MAX, len(fitting))
        drawn = rng.choice(len(fitting), size=count, replace=False, p=weights / weights.sum())
        return tuple(fitting[int(index)][0] for index in drawn)


def choose_archive(
    kept: Sequence[Kept], *, target: str, root_seed: int, without: Task | None = None
) -> Archive:
    """The kernels for one target; `without` leaves out whatever could answer that task."""
    kernels = [kernel for kernel in kept if kernel.target == target]
    if without is not None:
        form, name = form_of(without.source), bare_name(without.id)
        kernels = [
            kernel
            for kernel in kernels
            if kernel.task_hash != without.hash
            and kernel.form != form
            and bare_name(kernel.task) != name
        ]
    return Archive(kernels, root_seed=root_seed)


def hash_archive(kept: Sequence[Kept]) -> str:
    """What a run's config says of the archive that it reads."""
    return short_hash(
        hash_text("\n".join(sorted(f"{k.id} {k.task_hash} {k.target}" for k in kept)))
    )


def describe(source: str, *, name: str) -> str:
    """The first line of a task's docstring, else its name."""
    try:
        text = ast.get_docstring(ast.parse(source)) or name
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        text = name
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
