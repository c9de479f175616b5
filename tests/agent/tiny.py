"""A tiny task with kernels that come to every stage of the ladder."""

from pathlib import Path

from nki_agent.task.loader import load_task
from nki_agent.task.task import Task

TASK = '''"""y = x + 1 on a tensor of rank 3."""

import numpy as np


def add_one(x):
    return x + 1.0


def inputs():
    return [np.zeros((2, 75, 16), np.float32)]
'''

_KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    source, target = x.reshape((150, 16)), out.reshape((150, 16))
    for start in range(0, 150, 128):
        rows = min(128, 150 - start)
        tile = nl.ndarray((rows, 16), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source[start:start + rows, :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=AMOUNT)
        nisa.dma_copy(dst=target[start:start + rows, :], src=tile)
    return out
"""
RIGHT = _KERNEL.replace("AMOUNT", "1.0")
WRONG = _KERNEL.replace("AMOUNT", "2.0")
UNTRACEABLE = RIGHT.replace("(rows, 16)", "(rows + 128, 16)")
REFUSED = "def kernel(x) return x\n"
CHEAT = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    target = out.reshape((150, 16))
    for start in range(0, 150, 128):
        rows = min(128, 150 - start)
        tile = nl.ndarray((rows, 16), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=0.0)
        nisa.dma_copy(dst=target[start:start + rows, :], src=tile)
    return out
"""


def write_task(folder: Path) -> Path:
    path = folder / "add_one.py"
    path.write_text(TASK)
    return path


def load_tiny(folder: Path) -> Task:
    return load_task(write_task(folder))
