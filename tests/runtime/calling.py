"""Runs scripts that define kernels."""

from __future__ import annotations

import warnings
from pathlib import Path

from nki_agent.runtime.script import run_script

HEAD = """\
import sys
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

x = np.arange(12, dtype=np.float32).reshape(3, 4)

"""


def run(folder: Path, text: str, *, is_eager: bool = False) -> int:
    """The exit code of a script with this text behind the head."""
    path = folder / "script.py"
    path.write_text(HEAD + text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run_script(path, [], is_eager=is_eager)
