"""Many verdicts with workers killed at random: none lost, none doubled, nothing left behind."""

import subprocess
import sys

import pytest

from tests.source import ROOT


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_kernel_has_one_verdict_though_workers_are_killed() -> None:
    run = subprocess.run(
        [sys.executable, "benchmarks/farm.py", "--soak", "300", "--kills"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("300 verdicts, one each")
    figures = {line.split()[0]: line.split() for line in run.stdout.splitlines()[2:]}
    for name in ("descriptors", "processes"):
        first, last = float(figures[name][3]), float(figures[name][6])
        assert last <= first + 2, run.stdout
