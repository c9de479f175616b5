"""`verify` on several kernels: a line each, a summary, the worst exit code, a results file."""

import json
from pathlib import Path

import pytest

from tests.agent.tiny import CHEAT, RIGHT, WRONG
from tests.cli.calling import call, write_kernel, write_task


def write_kernels(folder: Path, **sources: str) -> list[Path]:
    paths = []
    for name, source in sources.items():
        paths.append(folder / f"{name}.py")
        paths[-1].write_text(source)
    return paths


def test_several_kernels_get_a_line_each_and_the_worst_code(tmp_path: Path) -> None:
    task = write_task(tmp_path)
    kernels = write_kernels(tmp_path, good=RIGHT, bad=WRONG, cheat=CHEAT)
    called = call("verify", *kernels, "--task", task, "--workers", 1)
    assert called.code == 3
    firsts = {line.split()[0] for line in called.out.splitlines() if not line.startswith(" ")}
    assert firsts == {"right", "wrong", "cheat"}
    assert "NK901" in called.out
    assert "3 kernels: " in called.err
    bad = call("verify", *kernels[:2], "--task", task, "--workers", 1, "--json")
    documents = [json.loads(line) for line in bad.out.splitlines()]
    assert bad.code == 1
    assert {d["kernel"]: d["end"]["verdict"]["stage"] for d in documents} == {
        str(kernels[0]): "right",
        str(kernels[1]): "wrong",
    }


def test_results_file_is_resumed(tmp_path: Path) -> None:
    task, results = write_task(tmp_path), tmp_path / "results.jsonl"
    kernels = write_kernels(tmp_path, good=RIGHT, bad=WRONG)
    options = ("--task", task, "--workers", 1, "--results", results)
    assert call("verify", kernels[0], *options).code == 0
    first = results.read_bytes()
    assert call("verify", *kernels, *options).code == 1
    assert results.read_bytes().startswith(first)
    assert len(results.read_bytes().splitlines()) == 2
    again = call("verify", *kernels, *options)
    assert again.code == 1
    assert "1 right" in again.err
    assert len(results.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("reference", ["raise ValueError('no luck')", "raise MemoryError"])
def test_failure_that_is_not_the_kernels_has_its_own_code(tmp_path: Path, reference: str) -> None:
    task = write_task(tmp_path)
    task.write_text(task.read_text().replace("return x + 1.0", reference))
    called = call("verify", *write_kernels(tmp_path, a=RIGHT, b=WRONG), "--task", task)
    assert called.code == (4 if "Memory" in reference else 2)
    assert ("no luck" if called.code == 2 else "out of memory") in called.out


def test_file_that_is_missing_stops_all_before_they_begin(tmp_path: Path) -> None:
    task, kernels = write_task(tmp_path), write_kernels(tmp_path, good=RIGHT)
    called = call("verify", *kernels, tmp_path / "none.py", "--task", task)
    assert (called.code, called.out) == (2, "")
    other = call("verify", *kernels, "--task", task, "--results", kernels[0])
    assert other.code == 2
    assert "is no result" in other.err


def test_perf_without_perf_shapes_is_told(tmp_path: Path) -> None:
    task, kernel = write_task(tmp_path), write_kernel(tmp_path)
    other = tmp_path / "other.py"
    other.write_text(kernel.read_text())
    for kernels in ((kernel,), (kernel, other)):
        called = call("verify", *kernels, "--task", task, "--perf", "--workers", 1)
        assert (called.code, called.err.count("has no perf shapes")) == (0, 1), called.err
        assert "no perf shapes" not in call("verify", *kernels, "--task", task).err


def test_latency_names_its_shapes(tmp_path: Path) -> None:
    called = call("verify", write_kernel(tmp_path), "--task", write_task(tmp_path))
    assert "µs on trn2 at the given shapes (modelled" in called.out


def test_json_of_several_kernels_is_told_to_be_lines() -> None:
    words = " ".join(call("verify", "--help").out.replace("│", " ").split())
    assert "one JSON line each" in words
