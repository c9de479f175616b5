"""A disk that fills up, as a file system of a few pages in a mount namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.calling import write_kernel
from tests.judging import SOFTMAX_TASK
from tests.kernels import SOFTMAX
from tests.source import ROOT

SCRIPT = """
mount -t tmpfs -o size="$SIZE"k none "$DISK" || exit 99
cp -r "$HELD/." "$DISK" || exit 98
"$@" >"$OUT" 2>"$ERR"
code=$?
cd "$DISK" && find . -type f -size +0 | while read -r file; do cp --parents "$file" "$KEPT"; done
exit $code
"""


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    err: str
    kept: Path

    def files(self, name: str) -> list[Path]:
        """What the disk held in the end."""
        return sorted(self.kept.rglob(name))


def run_on_disk(
    folder: Path, kilobytes: int, *arguments: object, held: Path | None = None
) -> Ended:
    """Run our command where the folder `disk` is a file system of this size.

    What is in the folder `held` lies on it before.
    """
    places = {name: folder / name.lower() for name in ("DISK", "KEPT", "HELD")}
    for place in places.values():
        place.mkdir(exist_ok=True)
    places["HELD"] = held or places["HELD"]
    out, err = folder / "out", folder / "err"
    named = {name: str(place) for name, place in places.items()}
    called = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", SCRIPT, "sh", sys.executable, "-m", "nki_agent"]
        + [str(a) for a in arguments],
        env={**os.environ, **named, "SIZE": str(kilobytes), "OUT": str(out), "ERR": str(err)},
        cwd=ROOT,
        check=False,
        capture_output=True,
    )
    if called.returncode in (1, 99) and not err.exists():
        pytest.skip("no mount namespace for this user")
    return Ended(called.returncode, err.read_text(), places["KEPT"])


@pytest.mark.parametrize("kilobytes", [4, 12, 28, 32, 40])
def test_solve_on_a_full_disk_says_so_and_leaves_no_verdict(tmp_path: Path, kilobytes: int) -> None:
    task = tmp_path / "task.py"
    task.write_text(SOFTMAX_TASK)
    ended = run_on_disk(
        tmp_path, kilobytes, "solve", task, "--runs", tmp_path / "disk", "--seed", 1
    )
    assert ended.code == 4, ended.err
    assert "No space left on device" in ended.err
    assert "Traceback" not in ended.err
    assert ended.files("verdict.json*") == []


def test_solve_on_a_disk_that_is_large_enough_leaves_a_whole_verdict(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text(SOFTMAX_TASK)
    ended = run_on_disk(tmp_path, 200, "solve", task, "--runs", tmp_path / "disk", "--seed", 1)
    assert ended.code == 0, ended.err
    (verdict,) = ended.files("verdict.json*")
    assert json.loads(verdict.read_text())["stage"] == "right"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_verify_to_a_full_disk_fails(tmp_path: Path, options: tuple[str, ...]) -> None:
    kernel, task = write_kernel(tmp_path, SOFTMAX), tmp_path / "task.py"
    task.write_text(SOFTMAX_TASK)
    command = [sys.executable, "-m", "nki_agent", "verify", str(kernel), "--task", str(task)]
    with Path("/dev/full").open("w") as full:
        called = subprocess.run(
            [*command, *options], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert called.returncode == 4
    assert called.stderr == "error: cannot write: No space left on device\n"


def test_profile_to_a_full_disk_fails(tmp_path: Path) -> None:
    kernel, task = write_kernel(tmp_path, SOFTMAX), tmp_path / "task.py"
    task.write_text(SOFTMAX_TASK)
    ended = run_on_disk(
        tmp_path, 4, "profile", kernel, "--task", task, "--trace", tmp_path / "disk" / "t.json"
    )
    assert ended.code == 4, ended.err
    assert "No space left on device" in ended.err
    assert "Traceback" not in ended.err
