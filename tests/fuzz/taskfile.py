"""Broken task files.

Law: a task file that was changed in any way is a task or a `TaskError`, never another exception.
The file runs here, so what is put into it is taken from other task files only.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nki_agent.base.errors import TaskError
from nki_agent.task.loader import load_task
from nki_agent.task.trial import expected, make_trials
from tests.fuzz.corpus import ROOT
from tests.fuzz.text import TextMutator
from tests.judging import SOFTMAX_TASK

SMALL = (("1024", "24"), ("1000", "30"), ("768", "12"), ("512", "16"))
"""Sizes of the examples, and what they are here."""
NUMPY_TASK = '''\
"""Several outputs, an index, and an input that is updated."""

import numpy as np

ROWS, COLUMNS = 6, 8
TOLERANCE = "F1"


def reference(x, index, scale=2.0, *, bias=None):
    rows = x[index % ROWS] * scale
    if bias is not None:
        rows = rows + bias
    return rows, rows.sum(axis=-1), {"count": np.arange(COLUMNS, dtype=np.float32)}["count"]


def inputs(rng):
    return {
        "x": rng.standard_normal((ROWS, COLUMNS), dtype=np.float32),
        "index": rng.integers(0, ROWS, size=(5,), dtype=np.int32),
        "bias": rng.random((COLUMNS,), dtype=np.float32),
    }
'''


NUMPY_TEXTS = (SOFTMAX_TASK.replace("200, 96", "20, 9"), NUMPY_TASK)
"""Task files that need no PyTorch."""


@functools.cache
def texts() -> tuple[str, ...]:
    """Task files, with small sizes."""
    found = list(NUMPY_TEXTS)
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for large, small in SMALL:
            text = text.replace(large, small)
        found.append(text)
    return tuple(found)


class TaskFuzz:
    """Loads changed files from one folder."""

    def __init__(self, folder: Path, given: Sequence[str]) -> None:
        """Write them there."""
        self.path = folder / "fuzzed.py"
        self.texts = given

    def try_case(self, rng: np.random.Generator) -> str:
        """One file: whether it is a task."""
        mutator = TextMutator(rng, self.texts)
        text = mutator.mutate(mutator.pick(self.texts))
        self.path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            try:
                task = load_task(self.path)
            except TaskError as error:
                return "refused" if str(error) else "refused without a word"
            for trial in make_trials(task, 5)[:1]:
                expected(task, trial.inputs(task))
        except TaskError:
            return "ended"
        except BaseException as error:
            error.add_note(text.encode("utf-8", "backslashreplace").decode())
            raise
        return "task"
