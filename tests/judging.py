"""The task that kernels of several rooms' tests are judged by."""

from __future__ import annotations

from pathlib import Path

from nki_agent.task.loader import load_task
from nki_agent.task.task import Task

SOFTMAX_TASK = '''\
"""Row softmax."""

import numpy as np


def reference(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def inputs():
    return {"x": np.random.standard_normal((200, 96)).astype(np.float32)}
'''


def load_softmax(folder: Path) -> Task:
    """Row softmax of [200, 96] in float32; the task's file is written to `folder`."""
    path = folder / "softmax.py"
    path.write_text(SOFTMAX_TASK)
    return load_task(path)
