"""Task files written on the spot."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from nki_agent.task.loader import load_task
from nki_agent.task.task import Task

Load = Callable[[str], Task]
Write = Callable[[str], Path]

TORCH = """\
import torch
from torch import nn
from torch.nn import functional

"""
NUMPY = """\
import numpy as np

"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(source: str) -> Path:
        path = tmp_path / "some_task.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def load(write: Write) -> Load:
    return lambda source: load_task(write(source))


@pytest.fixture
def load_torch(write: Write) -> Load:
    return lambda source: load_task(write(TORCH + textwrap.dedent(source)))


@pytest.fixture
def load_numpy(write: Write) -> Load:
    return lambda source: load_task(write(NUMPY + textwrap.dedent(source)))
