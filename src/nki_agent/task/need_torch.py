"""Refuses references in PyTorch on a machine without it.

Law: a missing PyTorch is the machine's matter, so it is told before a run and never scored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from nki_agent.base.errors import UsageError
from nki_agent.task.userfile import INSTALL_TORCH, read_source

_IMPORTS = re.compile(r"^\s*(?:import|from)\s+torch\b", re.MULTILINE)


def need_torch(paths: Iterable[Path]) -> None:
    """Nothing where PyTorch is there, or no file imports it.

    Raises:
        UsageError: one does, and it is missing.
    """
    if find_spec("torch") is not None:
        return
    for path in paths:
        if _IMPORTS.search(read_source(path)):
            raise UsageError(
                f"the task {path.stem} needs PyTorch, which is missing", hint=INSTALL_TORCH
            )
