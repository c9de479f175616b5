"""Kernels and tasks that cannot be used: each has its own message, and none has a verdict.

Law: what is wrong with a task or a path ends with 2, what is wrong with the machine with 4. A
kernel that can be read but is wrong has a verdict: 1.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nki_agent.verify.kernel import SOURCE_BYTES_MAX
from tests.cli.calling import Called, call, write_kernel
from tests.judging import SOFTMAX_TASK
from tests.kernels import SOFTMAX

HEAD = "import numpy as np\n\n\n"
INPUTS = (
    "\n\ndef inputs(rng):\n    return {'x': rng.standard_normal((200, 96)).astype(np.float32)}\n"
)


def reference(*lines: str) -> str:
    """A NumPy task whose reference has these lines."""
    return HEAD + "def reference(x):\n" + "".join(f"    {line}\n" for line in lines) + INPUTS


SOFTMAX_LINES = ("e = np.exp(x - x.max(axis=1, keepdims=True))", "y = e / e.sum(1, keepdims=True)")
TASKS = {
    "no Python": ("def reference(x:\n", "task.py:1: not Python"),
    "a null character": ("x = 1\0\n", "not Python"),
    "nothing": ("", "task.py"),
    "an error while it is loaded": ("1 / 0\n", "task.py:1: loading the file raised ZeroDivision"),
    "an exit while it is loaded": ("raise SystemExit(0)\n", "raised SystemExit"),
    "a module that is not there": ("import nowhere_to_be_found\n", "install `nowhere_to_be_found`"),
    "a reference that raises": (reference("raise ValueError('no')"), "task.py:5"),
    "a reference that gives nothing": (reference("return None"), "task.py"),
    "a reference that gives text": (reference("return 'x'"), "task.py"),
    "a reference that gives objects": (reference("return np.array([object()])"), "task.py"),
    "a reference that gives no number": (reference("return x * np.nan"), "finite"),
    "a reference by chance": (reference("return x * np.random.rand()"), "differ"),
    "a class of tolerance that is none": (
        "TOLERANCE = 'Z9'\n" + reference(*SOFTMAX_LINES, "return y"),
        "TOLERANCE in task.py is 'Z9'",
    ),
    "a tolerance that is no text": (
        HEAD + "TOLERANCE = np.zeros(3)\n" + reference(*SOFTMAX_LINES, "return y"),
        "TOLERANCE in task.py is",
    ),
    "a dtype that is none": (
        HEAD + "DTYPE = np\n" + reference(*SOFTMAX_LINES, "return y"),
        "DTYPE in task.py is",
    ),
    "complex numbers": (reference("return x * 1j"), "complex"),
    "inputs that raise": (
        SOFTMAX_TASK.replace("return {", "raise KeyError('x')\n    return {"),
        "",
    ),
    "inputs that are none": (SOFTMAX_TASK.replace('return {"x"', 'return 5, {"x"'), "task.py"),
}
LATER = {
    "raises for large values": ("if abs(x).max() > 4.6: raise ValueError('too large')",),
    "raises at times": ("if x.max() > 4.6: raise ValueError('at times')",),
    "has another shape at times": ("if x.max() > 4.6: return y[:, 1:]",),
    "has another number of results at times": ("if x.max() > 4.6: return y, y",),
    "has another format at times": ("if x.max() > 4.6: return y > 0",),
    "gives nothing at times": ("if x.max() > 4.6: return None",),
}
"""References that load, perhaps, and fail at some of the values of a verdict."""


def judge(folder: Path, task: str, *options: object) -> Called:
    path = folder / "task.py"
    path.write_text(task)
    return call("verify", write_kernel(folder, SOFTMAX), "--task", path, *options)


def check_refused(called: Called, words: str) -> None:
    """Usage, with a message of our own and nothing else."""
    assert called.code == 2, called.err
    assert called.out == ""
    assert sum(line.startswith("error: ") for line in called.err.splitlines()) == 1
    assert words in called.err
    assert "internal error" not in called.err


@pytest.mark.parametrize("name", TASKS)
def test_task_that_cannot_be_used_has_no_verdict(tmp_path: Path, name: str) -> None:
    check_refused(judge(tmp_path, *TASKS[name][:1], "--json"), TASKS[name][1])


@pytest.mark.parametrize("name", LATER)
def test_reference_that_fails_at_some_values_has_no_verdict(tmp_path: Path, name: str) -> None:
    task = reference(*SOFTMAX_LINES, *LATER[name], "return y")
    ends = [judge(tmp_path, task, "--json", "--seed", seed) for seed in range(6)]
    refused = [called for called in ends if called.code != 0]
    assert refused
    for called in refused:
        check_refused(called, "")


@pytest.mark.parametrize("name", TASKS)
def test_solve_keeps_no_verdict_of_a_task_that_cannot_be_used(tmp_path: Path, name: str) -> None:
    path, runs = tmp_path / "task.py", tmp_path / "runs"
    path.write_text(TASKS[name][0])
    called = call("solve", path, "--runs", runs, "--seed", 1)
    assert called.code == 2, called.err
    assert list(runs.rglob("verdict.json*")) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\xff\xfe\x00", "is not text in UTF-8"),
        (b"#" * (SOURCE_BYTES_MAX + 1), "is larger than"),
    ],
)
def test_kernel_that_is_no_text_has_no_verdict(tmp_path: Path, text: bytes, words: str) -> None:
    kernel, task = tmp_path / "kernel.py", tmp_path / "task.py"
    kernel.write_bytes(text)
    task.write_text(SOFTMAX_TASK)
    check_refused(call("verify", kernel, "--task", task), words)


@pytest.mark.parametrize("which", ["kernel", "task"])
def test_path_that_holds_no_file_has_no_verdict(tmp_path: Path, which: str) -> None:
    paths = {"kernel": write_kernel(tmp_path, SOFTMAX), "task": tmp_path / "task.py"}
    paths["task"].write_text(SOFTMAX_TASK)
    command = ("verify", paths["kernel"], "--task", paths["task"])
    paths[which].unlink()
    check_refused(call(*command), which)
    paths[which].mkdir()
    check_refused(call(*command), which)
    paths[which].rmdir()
    os.mkfifo(paths[which])
    check_refused(call(*command), which)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
@pytest.mark.parametrize("which", ["kernel", "task"])
def test_file_that_may_not_be_read_has_no_verdict(tmp_path: Path, which: str) -> None:
    paths = {"kernel": write_kernel(tmp_path, SOFTMAX), "task": tmp_path / "task.py"}
    paths["task"].write_text(SOFTMAX_TASK)
    paths[which].chmod(0)
    check_refused(call("verify", paths["kernel"], "--task", paths["task"]), "Permission denied")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return out", "return out, out"),
        ("return out", "return out.reshape((96, 200))"),
        ("dtype=x.dtype, buffer=nl.shared", "dtype=nl.bfloat16, buffer=nl.shared"),
        ("return out", "return None"),
    ],
)
def test_kernel_with_other_results_has_a_verdict(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "task.py"
    path.write_text(SOFTMAX_TASK)
    kernel = write_kernel(tmp_path, SOFTMAX.replace(before, after))
    called = call("verify", kernel, "--task", path, "--json")
    assert called.code == 1
    codes = {d["code"] for d in called.document["diagnostics"]}
    assert codes & {"NK213", "NK112"}, codes
