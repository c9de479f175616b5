"""Long runs by hand: `python -m tests.fuzz --what decoder --seconds 600`."""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.fuzz import checker, decoder, taskfile
from tests.fuzz.campaign import Case, apart, run_cases

ADDRESS_BYTES_MAX = 12 * 2**30
"""A changed size must not take this machine down."""


def decoder_case(folder: Path) -> Case:
    """Programs through every room."""
    del folder
    return lambda rng: decoder.try_case(rng, None)[0]


def judge_case(folder: Path) -> Case:
    """Answers of the tracing process through the judge."""
    fuzz = decoder.JudgeFuzz(folder)
    return lambda rng: decoder.try_case(rng, fuzz)[0]


def checker_case(folder: Path) -> Case:
    """Kernel sources through the checker and its fixes."""
    del folder
    return checker.try_case


def verdict_case(folder: Path) -> Case:
    """Kernel sources through the sandbox and the judge."""
    return checker.VerdictFuzz(folder).try_case


def task_case(folder: Path) -> Case:
    """Task files through the loader and one trial."""
    importlib.import_module("torch")
    return apart(taskfile.TaskFuzz(folder, taskfile.texts()).try_case)


WHAT: dict[str, Callable[[Path], Case]] = {
    "decoder": decoder_case,
    "judge": judge_case,
    "checker": checker_case,
    "verdict": verdict_case,
    "task": task_case,
}


def main() -> int:
    """Run cases and show each kind of failure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", choices=sorted(WHAT), required=True)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cases", type=int)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        case = WHAT[chosen.what](Path(folder))
        report = run_cases(
            case,
            seed=chosen.seed,
            seconds=chosen.seconds,
            cases_max=chosen.cases,
            first=chosen.first,
        )
    for text in report.failures.values():
        sys.stdout.write(f"{text}\n")
    sys.stdout.write(f"{report.num_cases} cases: {dict(report.ends.most_common())}\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))
    sys.exit(main())
