"""The frozen baseline fits the suite and the cost model that it is used with."""

from nki_agent.bench.baselines import read_baseline
from nki_agent.bench.suite import builtin_suite
from nki_agent.cost.version import MODEL_VERSION

SUITE = builtin_suite()


def test_baseline_is_of_this_suite_and_cost_model() -> None:
    baseline = read_baseline(SUITE.version)
    assert baseline is not None
    assert baseline.cost_model == MODEL_VERSION
    assert baseline.suite_hash == SUITE.hash, "freeze it again: `bench baseline` of a `--perf` run"
    ids = {task.id for task in SUITE.tasks}
    assert {entry.task for entry in baseline.entries} <= ids
    assert len(baseline.entries) == len({(e.task, e.target, e.shapes) for e in baseline.entries})


def test_baseline_is_found_by_task_target_and_shapes() -> None:
    baseline = read_baseline(SUITE.version)
    assert baseline is not None
    entry = baseline.entries[0]
    assert baseline.find_ns(entry.task, entry.target, entry.shapes) == entry.latency_ns
    assert baseline.find_ns(entry.task, entry.target, "dev") is None


def test_version_without_a_baseline_has_none() -> None:
    assert read_baseline("0") is None
