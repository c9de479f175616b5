"""The frozen baseline fits the suite and the cost model that it is used with."""

import msgspec

from nki_agent.bench.baselines import read_baseline
from nki_agent.bench.suite import builtin_suite
from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.bound import bound_ns
from nki_agent.cost.version import MODEL_VERSION
from nki_agent.evals.workshop import find_baseline
from nki_agent.task.loader import load_task
from nki_agent.verify.speed import make_work
from scripts.freeze_baseline import SEED, is_wanted
from tests.evals.made import make_config

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


def test_no_baseline_kernel_is_faster_than_its_bound() -> None:
    baseline = read_baseline(SUITE.version)
    assert baseline is not None
    latencies: dict[str, dict[Target, float]] = {}
    for entry in baseline.entries:
        latencies.setdefault(entry.task, {})[Target(entry.target)] = entry.latency_ns
    past = []
    for task_id, found in latencies.items():
        work = make_work(load_task(SUITE.find_task(task_id).path, name=task_id).perf)
        for target, latency_ns in found.items():
            percent = bound_ns(work, load_chip(target)).percent(latency_ns)
            if percent > 100:
                past.append(f"{task_id} on {target}: {percent:.1f} %")
    assert past == []


def test_only_the_run_that_freezing_began_is_gone_on_with() -> None:
    config = make_config(seed=SEED)
    begun = {"suite_hash": config.versions.suite_hash, "split": "all", "targets": "trn2"}
    versions = msgspec.structs.replace(config.versions, baseline=_frozen_hash())
    config = msgspec.structs.replace(config, versions=versions)
    assert is_wanted(config, **begun)
    for other in ({"seed": 9}, {"split": "tasks"}, {"targets": (Target.TRN3,)}):
        assert not is_wanted(msgspec.structs.replace(config, **other), **begun)


def _frozen_hash() -> str | None:
    found = find_baseline(SUITE)
    return None if found is None else found.hash
