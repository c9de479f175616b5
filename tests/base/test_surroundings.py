"""A command says what it lacks of its surroundings, before it does anything."""

import subprocess
import sys
from pathlib import Path

import pytest

from nki_agent.__main__ import FAILURE
from nki_agent.cli.command import ExitCode

COMMAND = f"exec '{sys.executable}' -m nki_agent --help"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (f"mkdir gone && cd gone && rmdir ../gone && {COMMAND}", "the current folder"),
        (f"{COMMAND} >&-", "standard output is closed"),
    ],
)
def test_what_is_missing_is_said(script: str, says: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", script], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == FAILURE == ExitCode.FAILURE
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
