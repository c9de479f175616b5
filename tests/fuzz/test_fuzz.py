"""A short, seeded part of each campaign; long ones are run by hand (`python -m tests.fuzz`).

Law: whatever is changed in a Program, a kernel or a task file, the outcome is one that a user can
be told; never an exception of ours, a hang, or `right` for what is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import checker, decoder, taskfile
from tests.fuzz.campaign import HangError, Report, apart, run_cases

SEED = 20
SECONDS = 30.0
"""A limit only; each part takes a few seconds."""


def check_report(report: Report, *, num_cases: int) -> None:
    """Every case was run, and none failed."""
    assert list(report.failures.values()) == []
    assert report.num_cases == num_cases


def test_changed_program_ends_as_a_user_can_be_told() -> None:
    report = run_cases(
        lambda rng: decoder.try_case(rng, None)[0], seed=SEED, seconds=SECONDS, cases_max=1_500
    )
    check_report(report, num_cases=1_500)
    assert {"stored", "refused", "unfit", "ran"} <= report.ends.keys()


def test_changed_answer_of_a_tracing_process_is_right_only_if_it_computes_right(
    tmp_path: Path,
) -> None:
    fuzz = decoder.JudgeFuzz(tmp_path)
    report = run_cases(
        lambda rng: decoder.try_case(rng, fuzz)[0], seed=SEED, seconds=SECONDS, cases_max=250
    )
    check_report(report, num_cases=250)
    assert {"cheat", "wrong", "right"} <= report.ends.keys()


def test_changed_kernel_source_gives_findings_and_safe_fixes() -> None:
    report = run_cases(checker.try_case, seed=SEED, seconds=SECONDS, cases_max=1_000)
    check_report(report, num_cases=1_000)
    assert {"no source", "errors", "clean", "fixed"} <= report.ends.keys()


@pytest.fixture
def verdicts(tmp_path: Path) -> Iterator[checker.VerdictFuzz]:
    fuzz = checker.VerdictFuzz(tmp_path)
    yield fuzz
    fuzz.close()


def test_changed_kernel_source_has_a_verdict(verdicts: checker.VerdictFuzz) -> None:
    report = run_cases(verdicts.try_case, seed=SEED, seconds=SECONDS, cases_max=60)
    check_report(report, num_cases=60)


def test_changed_task_file_is_a_task_or_says_what_is_wrong(tmp_path: Path) -> None:
    fuzz = taskfile.TaskFuzz(tmp_path, taskfile.NUMPY_TEXTS)
    report = run_cases(apart(fuzz.try_case), seed=SEED, seconds=SECONDS, cases_max=60)
    check_report(report, num_cases=60)
    assert {"refused", "task"} <= report.ends.keys()


def test_failure_and_hang_of_a_case_are_reported() -> None:
    def fail(rng: object) -> str:
        raise ZeroDivisionError

    def hang(rng: object) -> str:
        raise HangError

    for case, name in ((fail, "ZeroDivisionError"), (hang, "HangError"), (apart(fail), "Apart")):
        report = run_cases(case, seed=SEED, seconds=SECONDS, cases_max=2)
        (kind,) = report.failures
        assert kind.startswith(name)
        assert report.ends[kind] == 2
