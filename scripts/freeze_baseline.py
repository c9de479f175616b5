"""Freezes the baseline of our benchmark: a run of the built-in author, then its latencies.

    make baseline                                   # an hour or two; goes on where it was stopped
    .venv/bin/python scripts/freeze_baseline.py --split smoke-12 --out /tmp/baseline.json

Law: the seed is fixed, so the same version gives the same file. Nothing is written unless every
attempt was made and no kernel is faster than its bound.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from nki_agent.bench.baselines import FOLDER
from nki_agent.bench.suite import builtin_suite
from nki_agent.evals.config import EvalConfig, Versions
from nki_agent.evals.results import CONFIG, read_config
from nki_agent.evals.workshop import find_baseline

SEED = 1
TARGETS = "trn2,trn3"
WHOLE = (0, 1)
"""Exit codes of `bench run` after which every attempt is there: all right, or some not."""


def call(*arguments: object) -> int:
    """One command of nki-agent, in a process of its own."""
    command = [sys.executable, "-P", "-m", "nki_agent", *map(str, arguments)]
    return subprocess.run(command, check=False).returncode


def find_begun(runs: Path, split: str, targets: str) -> Path | None:
    """A run of these tasks under this version that can go on."""
    suite = builtin_suite()
    for folder in sorted(path.parent for path in runs.glob(f"*/{CONFIG}")):
        config = read_config(folder)
        if is_wanted(config, suite_hash=suite.hash, split=split, targets=targets):
            return folder
    return None


def is_wanted(config: EvalConfig, *, suite_hash: str, split: str, targets: str) -> bool:
    """Whether a run is what this script would begin."""
    frozen = find_baseline(builtin_suite())
    wanted = Versions(
        suite=config.versions.suite,
        suite_hash=suite_hash,
        baseline=None if frozen is None else frozen.hash,
    )
    asked = ",".join(target.value for target in config.targets)
    return (config.versions, config.split, asked, config.seed) == (wanted, split, targets, SEED)


def main() -> int:
    """Run, or go on with a run; then freeze it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--split", default="full-250")
    parser.add_argument("--target", default=TARGETS)
    parser.add_argument("--runs", type=Path, default=Path("runs/baseline"))
    parser.add_argument("--out", type=Path, default=FOLDER / f"{builtin_suite().version}.json")
    options = parser.parse_args()
    begun = find_begun(options.runs, options.split, options.target)
    if begun is None:
        code = call(
            *("bench", "run", "--model", "builtin", "--perf", "--seed", SEED),
            *("--split", options.split, "--target", options.target, "--runs", options.runs),
        )
    else:
        code = call("bench", "run", "--resume", begun)
    found = find_begun(options.runs, options.split, options.target)
    if code not in WHOLE or found is None:
        print("not frozen: attempts are missing; the same command goes on", file=sys.stderr)
        return 1
    if call("bench", "baseline", found, "--out", options.out):
        return 1
    entries = json.loads(options.out.read_text(encoding="utf-8"))["entries"]
    print(f"{len(entries)} latencies frozen in {options.out}; `{found}` may go")
    return 0


if __name__ == "__main__":
    sys.exit(main())
