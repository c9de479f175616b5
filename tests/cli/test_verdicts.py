"""`verify`, `check`, `profile` and `show` on kernels of every stage."""

import json
import os
from pathlib import Path

import pytest

from tests.agent.tiny import CHEAT, REFUSED, RIGHT, UNTRACEABLE, WRONG
from tests.cli.calling import Called, call, write_kernel, write_task

SOURCES = {
    "cheat": (CHEAT, 3),
    "refused": (REFUSED, 1),
    "untraceable": (UNTRACEABLE, 1),
    "wrong": (WRONG, 1),
    "right": (RIGHT, 0),
}
UPDATE = """
import numpy as np

UPDATES = ("weight",)


def reference(weight, grad):
    weight -= np.float32(1e-9) * grad
    return weight.sum(axis=1)


def inputs(rng):
    return [rng.standard_normal((64, 96), dtype=np.float32) for _ in range(2)]
"""
WITHOUT_UPDATE = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(weight, grad):
    out = nl.ndarray((64,), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=weight)
    total = nl.ndarray((64, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.dma_copy(dst=out.reshape((64, 1)), src=total)
    return out
"""


def judge(command: str, folder: Path, source: str, *options: object) -> Called:
    return call(command, write_kernel(folder, source), "--task", write_task(folder), *options)


@pytest.mark.parametrize("stage", SOURCES)
def test_verify_has_a_code_for_every_stage(tmp_path: Path, stage: str) -> None:
    source, code = SOURCES[stage]
    called = judge("verify", tmp_path, source, "--json", "--seed", 1)
    assert (called.code, called.document["stage"]) == (code, stage), called.err


def test_verify_shows_the_error_of_each_trial(tmp_path: Path) -> None:
    called = judge("verify", tmp_path, RIGHT)
    rows = [line for line in called.out.splitlines() if line.endswith("right")]
    assert [row.split()[:2] for row in rows[1:]] == [
        ["0", "standard"],
        ["1", "standard"],
        ["2", "standard"],
        ["3", "big"],
        ["4", "tiny"],
    ]
    wrong = judge("verify", tmp_path, WRONG).out
    assert "NK501" in wrong
    assert "WRONG" in wrong


def test_verify_needs_files_that_are_there(tmp_path: Path) -> None:
    kernel, task = write_kernel(tmp_path), write_task(tmp_path)
    assert call("verify", tmp_path / "kernels.py", "--task", task).code == 2
    called = call("verify", kernel, "--task", tmp_path / "none.py")
    assert (called.code, f"no task file `{tmp_path / 'none.py'}`" in called.err) == (2, True)


def test_file_that_is_none_is_named(tmp_path: Path) -> None:
    task = write_task(tmp_path)
    link, fifo = tmp_path / "link.py", tmp_path / "fifo.py"
    link.symlink_to("nowhere.py")
    os.mkfifo(fifo)
    for path, words in (
        (link, "a link to nothing"),
        (fifo, "no regular file"),
        (tmp_path / ("long" * 100), "File name too long"),
    ):
        called = call("verify", path, "--task", task)
        assert called.code == 2
        assert words in called.err


def test_files_as_other_editors_write_them_are_read(tmp_path: Path) -> None:
    task, kernel = write_task(tmp_path), write_kernel(tmp_path)
    for path in (task, kernel):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert call("verify", kernel, "--task", task).code == 0


def test_name_that_is_not_utf8_is_no_trouble(tmp_path: Path) -> None:
    task = write_task(tmp_path).rename(tmp_path / "t\udcff.py")
    kernel = write_kernel(tmp_path).rename(tmp_path / "k\udcff.py")
    for arguments in (
        ("verify", kernel, "--task", task, "--json"),
        ("check", kernel, "--json"),
        ("solve", task, "--runs", tmp_path / "runs\udcff", "--json"),
    ):
        called = call(*arguments)
        assert called.code == 0, called.err
        assert called.document


def test_older_chip_is_judged_with_a_note(tmp_path: Path) -> None:
    called = judge("verify", tmp_path, RIGHT, "--target", "trn1", "--json")
    assert called.document["target"] == "trn1"
    assert called.err.startswith("note: trn1 is judged with the current `nki` dialect")


@pytest.mark.parametrize("command", ["profile", "show"])
@pytest.mark.parametrize("stage", ["refused", "untraceable"])
def test_kernel_without_a_program_says_why(tmp_path: Path, command: str, stage: str) -> None:
    source, code = SOURCES[stage]
    called = judge(command, tmp_path, source)
    assert called.code == code
    assert called.out.startswith(f"verdict     {stage}\n  kernel.py:")
    assert judge(command, tmp_path, source, "--json").document["stage"] == stage


def test_show_lists_instructions_with_their_lines(tmp_path: Path) -> None:
    called = judge("show", tmp_path, RIGHT)
    assert called.code == 0
    assert called.out.count("tensor_scalar") == 2
    assert "kernel.py:13" in called.out
    short = judge("show", tmp_path, RIGHT, "--limit", 1).out
    assert short.splitlines()[-1] == "... 5 more"
    rows = judge("show", tmp_path, RIGHT, "--json").document
    assert [row["number"] for row in rows] == list(range(6))
    assert all(row["text"] in called.out for row in rows)


def test_profile_says_what_bounds_it_and_writes_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    called = judge("profile", tmp_path, RIGHT, "--trace", trace)
    assert called.code == 0
    assert "µs" in called.out
    assert json.loads(trace.read_text())["traceEvents"]
    assert judge("profile", tmp_path, RIGHT, "--json").document["latency_ns"] > 0


def test_profile_cannot_write_where_nothing_may_be(tmp_path: Path) -> None:
    called = judge("profile", tmp_path, RIGHT, "--trace", tmp_path / "no" / "trace.json")
    assert (called.code, "cannot write" in called.err) == (2, True)


def test_check_reads_files_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "right.py").write_text(RIGHT)
    (folder / "notes.py").write_text("x = 1\n")
    called = call("check", folder)
    assert (called.code, called.out, called.err) == (0, "", "1 file, 0 errors\n")
    (folder / "bad.py").write_text(RIGHT.replace("nisa.dma_copy", "nisa.dma_copi"))
    called = call("check", folder)
    assert called.code == 1
    assert called.out.startswith(f"{folder / 'bad.py'}:13: NK104")


def test_check_json_has_every_file(tmp_path: Path) -> None:
    right, refused = tmp_path / "a.py", tmp_path / "b.py"
    right.write_text(RIGHT)
    refused.write_text(REFUSED)
    called = call("check", right, refused, "--json")
    first, second = called.document
    assert (called.code, first["diagnostics"], second["file"]) == (1, [], str(refused))
    assert second["diagnostics"][0]["code"] == "NK101"


def test_check_of_a_cheat_is_three(tmp_path: Path) -> None:
    source = RIGHT.replace("    out =", "    import os\n    os._exit(0)\n    out =")
    assert call("check", write_kernel(tmp_path, source)).code == 3


def test_check_passes_over_a_folder_named_like_a_module(tmp_path: Path) -> None:
    write_kernel(tmp_path)
    (tmp_path / "folder.py").mkdir()
    assert call("check", tmp_path).code == 0


def test_check_of_nothing_is_usage(tmp_path: Path) -> None:
    assert call("check", tmp_path).code == 2
    assert call("check", tmp_path / "none.py").code == 2


def test_run_passes_arguments_and_the_exit_code(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(int(sys.argv[2]))\n")
    called = call("run", script, "--json", 5)
    assert (called.code, called.out) == (5, "['--json', '5']\n")
    assert call("run", tmp_path / "none.py").code == 2


def test_run_simulates_a_kernel(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        RIGHT + "\n\nimport numpy as np\n"
        "print(float(nki.simulate(kernel)(np.ones((2, 75, 16), np.float32)).sum()))\n"
    )
    called = call("run", script)
    assert (called.code, called.out) == (0, "4800.0\n")


DECLARED = """
SHAPES = {"dev": {"B": 1}, "perf": {"B": 16}}
INPUTS = {"x": "float32[2 * B, 75, 16]"}
OUTPUTS = {"y": "float32[2 * B, 75, 16]"}


def reference(x):
    return x + 1.0
"""
ANY_SIZE = RIGHT.replace("150", "x.shape[0] * 75")


def test_profile_and_show_take_the_shapes_by_name(tmp_path: Path) -> None:
    kernel, task = write_kernel(tmp_path, ANY_SIZE), tmp_path / "declared.py"
    task.write_text(DECLARED)
    dev = call("profile", kernel, "--task", task, "--json").document["latency_ns"]
    perf = call("profile", kernel, "--task", task, "--json", "--shapes", "perf")
    assert perf.document["latency_ns"] > dev
    listed = [call("show", kernel, "--task", task, "--shapes", s).out for s in ("dev", "perf")]
    assert [text.count("dma_copy") for text in listed] == [4, 38]
    unknown = call("profile", kernel, "--task", task, "--shapes", "huge")
    assert unknown.code == 2
    assert "the task has dev, perf" in unknown.err


def write_unfit(folder: Path) -> Path:
    """A task whose update is far under the limits, and a kernel that leaves it out."""
    (folder / "kernel.py").write_text(WITHOUT_UPDATE)
    task = folder / "update_sgd.py"
    task.write_text(UPDATE)
    return task


@pytest.mark.parametrize("results", [False, True])
def test_verify_warns_of_an_unfit_task_and_keeps_its_verdict(
    tmp_path: Path, *, results: bool
) -> None:
    task = write_unfit(tmp_path)
    options = ("--results", tmp_path / "results.jsonl") if results else ()
    called = call("verify", tmp_path / "kernel.py", "--task", task, *options)
    assert called.code == 0, called.err
    warnings = [line for line in called.err.splitlines() if line.startswith("warning: unfit")]
    assert len(warnings) == 2
    assert "`weight` in the place of `weight`" in warnings[0]
    assert "another draw of `grad` alone" in warnings[1]


def test_verdict_in_json_names_what_makes_its_task_unfit(tmp_path: Path) -> None:
    task = write_unfit(tmp_path)
    called = call("verify", tmp_path / "kernel.py", "--task", task, "--json")
    notes = [n for n in called.document["task_notes"] if n.startswith("unfit")]
    assert (called.document["stage"], len(notes)) == ("right", 2)


def test_solve_warns_of_an_unfit_task(tmp_path: Path) -> None:
    task = write_unfit(tmp_path)
    called = call("solve", task, "--model", "builtin", "--runs", tmp_path / "run")
    assert "warning: unfit to judge kernels by: copy" in called.err


def test_fit_task_has_no_warning(tmp_path: Path) -> None:
    assert "warning" not in judge("verify", tmp_path, RIGHT).err
