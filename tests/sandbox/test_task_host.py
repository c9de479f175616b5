"""A task file that nobody has read: judged like any other, and held like any kernel.

Law: whatever the file does ends in a TaskError that names it, within its time, and leaves neither a
file nor a process; the next task does not notice.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nki_agent.base.errors import MachineError, TaskError
from nki_agent.bench.splits import find_split
from nki_agent.bench.suite import builtin_suite
from nki_agent.chip.spec import Target
from nki_agent.sandbox import task_host
from nki_agent.sandbox.task_host import TaskHost, TaskLimits, load_untrusted_task
from nki_agent.task.family import STANDARD_SCALE
from nki_agent.task.lint import lint_task
from nki_agent.task.loader import load_task
from nki_agent.task.reference import Precision
from nki_agent.task.task import Task
from nki_agent.task.trial import expected, make_trials
from nki_agent.verify.judge import Judge
from tests.cheats.test_cheats import HONEST
from tests.judging import SOFTMAX_TASK
from tests.sandbox.test_pool import is_alive, wait_for_end

LIMITS = TaskLimits(load_seconds=6.0, seconds=4.0, memory_bytes=4 << 30)
SEED = 5

TORCH_TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, 32, dtype=torch.bfloat16)

    def forward(self, x, mask):
        y = self.last(self.norm(x).to(torch.bfloat16))
        return torch.where(mask, y, 0), y.argmax(dim=-1)

def get_inputs():
    return [torch.randn(64, 96), torch.rand(64, 1) > 0.5]

def get_init_inputs():
    return [96]
"""
IN_PLACE_TASK = """
import numpy as np

def reference(cache, x):
    cache += x
    return (cache * x).sum()

def inputs():
    draw = np.random.standard_normal
    return {"cache": draw((8, 16)).astype(np.float32), "x": draw((8, 16)).astype(np.float32)}
"""
PLAIN_TASK = """
import numpy as np

def reference(x):
    return np.exp(x)

def inputs():
    return {"x": np.random.standard_normal((8, 16)).astype(np.float32)}
"""
WHILE_LOADING = {
    "socket": ("import socket; socket.socket()", "PermissionError"),
    "passwd": ("open('/etc/passwd').read()", "PermissionError"),
    "own file": ("open(__file__).read()", "PermissionError|FileNotFoundError"),
    "write": ("open('/tmp/nki-agent-task', 'w')", "PermissionError"),
    "fork": ("import os; os.fork()", "PermissionError"),
    "kill": ("import os; os.kill(os.getppid(), 9)", "PermissionError"),
    "thread": ("import threading; threading.Thread(target=print).start()", "RuntimeError"),
    "loop": ("while True: pass", "no answer within 6 s"),
    "100 GB": ("x = bytearray(100 << 30)", "MemoryError"),
    "100 GB of tensor": ("import torch; torch.ones(100 << 28)", "RuntimeError"),
    "exit": ("import os; os._exit(3)", "ended with status 3"),
    "abort": ("import os; os.abort()", "ended by signal"),
    "not Python": ("def", "not Python"),
    "a module beside that is made up": ("import no_such_module", "ModuleNotFoundError"),
    "an error with control characters": ("raise ValueError(chr(27) + '[2J')", "ValueError"),
}
FORGED = {
    "garbage": ("lambda *_: b'xx'", "no answer"),
    "nothing": ("lambda *_: b''", "no answer"),
    "another kind": ("lambda *_: encode({'type': 'load'})", "no answer"),
    "no outputs": ("lambda *_: arrays({})", "no `output"),
    "another shape": ("lambda *_: arrays({NAME: ('float64', (16, 8), bytes(1024))})", "the shape"),
    "another dtype": ("lambda *_: arrays({NAME: ('float32', (8, 16), bytes(512))})", "float32"),
    "no dtype": ("lambda *_: arrays({NAME: ('object', (8, 16), bytes(1024))})", "object"),
    "too few bytes": ("lambda *_: arrays({NAME: ('float64', (8, 16), bytes(8))})", "8 bytes"),
    "a huge array": (
        "lambda *_: arrays({NAME: ('float64', (8, 16), bytes(1 << 30))})",
        "more than",
    ),
    "no bytes": ("lambda *_: 'text'", "not bytes"),
    "an error": ("lambda *_: 1 / 0", "ZeroDivisionError"),
    "an exit": ("lambda *_: __import__('os')._exit(0)", "ended with status 0"),
    "a loop": ("lambda *_: [None for _ in iter(int, 1)]", "no answer within 4 s"),
}
FORGING = """
import msgspec
from nki_agent.sandbox import child

encode = msgspec.msgpack.encode
NAME = "output"

def arrays(outputs):
    return encode({"type": "arrays", "outputs": outputs, "inputs": {}})

honest = child.answer
forged = FORGED

def answer(entry, request, channel, *, ticket):
    is_run = msgspec.msgpack.decode(request)["type"] == "run"
    return honest(forged if is_run else entry, request, channel, ticket=ticket)

child.answer = answer
"""


@pytest.fixture(scope="module")
def host() -> Iterator[TaskHost]:
    with TaskHost() as host:
        yield host


def write(folder: Path, text: str, name: str = "task.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def last_pid(host: TaskHost) -> int:
    """The process that was asked last, as it is called out here: it may have its own numbers."""
    for child in Path(f"/proc/{host.pid}/task/{host.pid}/children").read_text().split():
        status = Path(f"/proc/{child}/status").read_text()
        numbers = re.search(r"^NSpid:(.*)$", status, re.MULTILINE)
        if numbers is not None and int(numbers[1].split()[-1]) == host.guest_pids[-1]:
            return int(child)
    raise LookupError(host.guest_pids)


def check_honest(host: TaskHost, folder: Path) -> None:
    task = load_untrusted_task(write(folder, PLAIN_TASK, "honest.py"), host=host, limits=LIMITS)
    inputs = make_trials(task, SEED)[0].inputs(task)
    (found,) = expected(task, inputs).values()
    np.testing.assert_array_equal(found, np.exp(inputs["x"].astype(np.float64)))


def check_same(task: Task, local: Task) -> None:
    """All that is compared of a task, then inputs and results byte by byte."""
    assert task == local
    for shapes, own in zip(task.shape_sets, local.shape_sets, strict=True):
        for trial in make_trials(task, SEED, shapes=shapes.name):
            inputs, wanted = trial.inputs(task), trial.inputs(local)
            assert list(inputs) == list(wanted)
            for name, array in wanted.items():
                assert inputs[name].dtype == array.dtype
                np.testing.assert_array_equal(inputs[name], array)
            found, wanted = (expected(t, inputs, shapes=shapes.name) for t in (task, local))
            for name, array in wanted.items():
                assert found[name].dtype == array.dtype
                np.testing.assert_array_equal(found[name], array)
        inputs = own.sampler.draw(SEED, STANDARD_SCALE)
        for precision in Precision:
            results = shapes.reference.run(inputs, precision=precision)
            assert set(results.inputs) == {a.name for a in own.updates}


@pytest.mark.parametrize("text", [SOFTMAX_TASK, TORCH_TASK, IN_PLACE_TASK])
def test_honest_task_is_the_one_that_loads_in_process(
    text: str, host: TaskHost, tmp_path: Path
) -> None:
    path = write(tmp_path, text)
    check_same(load_untrusted_task(path, host=host), load_task(path))


@pytest.mark.parametrize("task_id", [*find_split("smoke-12").tasks, "l2-sdpa-full-bf16"])
def test_task_of_the_suite_is_the_one_that_loads_in_process(task_id: str, host: TaskHost) -> None:
    path = builtin_suite().find_task(task_id).path
    task, own = load_untrusted_task(path, host=host), load_task(path)
    assert (task.hash, task.tolerance, task.dev.outputs) == (
        own.hash,
        own.tolerance,
        own.dev.outputs,
    )
    (trial, *_) = make_trials(task, SEED)
    found, wanted = (expected(t, trial.inputs(t)) for t in (task, own))
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.slow
def test_every_task_of_the_suite_loads_in_the_sandbox(host: TaskHost) -> None:
    for entry in builtin_suite().tasks:
        task = load_untrusted_task(entry.path, host=host)
        (trial, *_) = make_trials(task, SEED)
        assert expected(task, trial.inputs(task))


def test_task_with_modules_beside_it_is_the_one_that_loads_in_process(
    host: TaskHost, tmp_path: Path
) -> None:
    package = tmp_path / "parts"
    package.mkdir()
    write(package, "from .inner import exp\n", "__init__.py")
    write(package, "from numpy import exp\nimport numbers_of_ours\n", "inner.py")
    write(tmp_path, "ONE = 1.0\n", "numbers_of_ours.py")
    write(tmp_path, "SECRET = 1\n", "not_imported.py")
    path = write(tmp_path, "import parts\n" + PLAIN_TASK.replace("np.exp", "parts.exp"))
    check_same(load_untrusted_task(path, host=host), load_task(path))


def test_untrusted_task_is_linted_like_any_other(host: TaskHost, tmp_path: Path) -> None:
    for number, text in enumerate((PLAIN_TASK, PLAIN_TASK.replace("np.exp(x)", "x + 1e-7"))):
        path = write(tmp_path, text, f"task{number}.py")
        assert lint_task(load_untrusted_task(path, host=host)) == lint_task(load_task(path))


def test_untrusted_task_gives_the_same_verdict(host: TaskHost, tmp_path: Path) -> None:
    path = write(tmp_path, SOFTMAX_TASK)
    with Judge(target=Target.TRN2) as judge:
        verdicts = [
            judge.judge(HONEST.kernel, task, root_seed=SEED)
            for task in (load_untrusted_task(path, host=host), load_task(path))
        ]
    first, second = verdicts
    assert first.right
    assert (first.stage, first.trials, first.hashes) == (second.stage, second.trials, second.hashes)
    assert first.latency_ns == second.latency_ns


@pytest.mark.parametrize("name", WHILE_LOADING)
def test_hostile_file_is_a_task_error_that_names_it(
    name: str, host: TaskHost, tmp_path: Path
) -> None:
    body, says = WHILE_LOADING[name]
    path = write(tmp_path, f"{body}\n{PLAIN_TASK}", "hostile.py")
    with pytest.raises(TaskError, match=says) as caught:
        load_untrusted_task(path, host=host, limits=LIMITS)
    assert "hostile.py" in str(caught.value)
    assert all(line.isprintable() for line in str(caught.value).split("\n"))
    assert not Path("/tmp/nki-agent-task").exists()
    check_honest(host, tmp_path)


@pytest.mark.parametrize("name", FORGED)
def test_forged_answer_is_a_task_error(name: str, host: TaskHost, tmp_path: Path) -> None:
    forged, says = FORGED[name]
    text = PLAIN_TASK + FORGING.replace("FORGED", forged, 1)
    task = load_untrusted_task(write(tmp_path, text, "hostile.py"), host=host, limits=LIMITS)
    inputs = make_trials(task, SEED)[0].inputs(task)
    (output,) = task.outputs
    assert output.name == "output"
    with pytest.raises(TaskError, match=says) as caught:
        expected(task, inputs)
    assert "hostile.py" in str(caught.value)
    check_honest(host, tmp_path)


def test_answer_to_an_earlier_request_is_no_answer(host: TaskHost, tmp_path: Path) -> None:
    text = PLAIN_TASK + FORGING.replace("forged = FORGED", "").replace(
        "    return honest(forged if is_run else entry",
        "    if is_run:\n        honest(entry, request, channel, ticket=ticket)\n"
        "    return honest(entry",
    )
    task = load_untrusted_task(write(tmp_path, text, "hostile.py"), host=host, limits=LIMITS)
    inputs = make_trials(task, SEED)[0].inputs(task)
    expected(task, inputs)
    with pytest.raises(TaskError, match="no answer"):
        expected(task, inputs)
    check_honest(host, tmp_path)


def test_a_gigabyte_on_standard_output_goes_nowhere(host: TaskHost, tmp_path: Path) -> None:
    text = "for _ in range(1000):\n    print('x' * 1_000_000)\n" + PLAIN_TASK
    task = load_untrusted_task(write(tmp_path, text), host=host)
    assert task.outputs


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("entry='<script>'", "name of its reference"),
        ("dev=replace(r.dev, name='a b')", "name of a shape set"),
        ("perf=r.dev", "two shape sets"),
        ("dev=replace(r.dev, outputs=())", "no output"),
        ("dev=replace(r.dev, outputs=r.dev.outputs * 2)", "two tensors of one name"),
        ("dev=replace(r.dev, outputs=(replace(o, shape=(1 << 20, 1 << 20)),))", "shape of"),
        ("dev=replace(r.dev, outputs=(replace(o, shape=(0,)),))", "shape of"),
        ("dev=replace(r.dev, outputs=(replace(o, shape=(-1, -8)),))", "shape of"),
        ("dev=replace(r.dev, outputs=(replace(o, name='\\x1b[2J'),))", "a name"),
        ("dev=replace(r.dev, outputs=(replace(o, dtype='float128'),))", "no answer"),
        ("dev=replace(r.dev, min_hbm_bytes=-1)", "work"),
        ("dev=replace(r.dev, scales={'big': (float('inf'), 0.0, 1.0)})", "scale"),
        ("notes=('x' * (5 << 20),)", "more than"),
        ("tolerance='WIDE'", "no answer"),
    ],
)
def test_forged_record_is_a_task_error(
    change: str, says: str, host: TaskHost, tmp_path: Path
) -> None:
    text = f"""{PLAIN_TASK}
from msgspec.structs import replace
from nki_agent.sandbox import task_guest

honest = task_guest.record_task

def forge(task):
    r = honest(task)
    o = r.dev.outputs[0]
    return replace(r, {change})

task_guest.record_task = forge
"""
    with pytest.raises(TaskError, match=says) as caught:
        load_untrusted_task(write(tmp_path, text, "hostile.py"), host=host, limits=LIMITS)
    assert "hostile.py" in str(caught.value)


def test_hash_and_id_are_not_what_the_task_says(host: TaskHost, tmp_path: Path) -> None:
    text = f"""{PLAIN_TASK}
from nki_agent.task import loader, userfile
userfile.hash_task_file = lambda *_, **__: "0" * 64
loader.make_id = lambda *_: "l1-relu-bf16"
"""
    task = load_untrusted_task(write(tmp_path, text, "hostile.py"), host=host)
    assert task.id == "hostile"
    assert task.hash != "0" * 64


def test_killed_process_of_a_task_is_replaced(host: TaskHost, tmp_path: Path) -> None:
    task = load_untrusted_task(write(tmp_path, PLAIN_TASK), host=host)
    pid = last_pid(host)
    os.kill(pid, signal.SIGKILL)
    assert make_trials(task, SEED)[0].inputs(task)
    assert last_pid(host) != pid
    assert not is_alive(pid)


def test_killed_warmed_process_is_replaced_with_its_guests(tmp_path: Path) -> None:
    with TaskHost() as host:
        task = load_untrusted_task(write(tmp_path, PLAIN_TASK), host=host)
        before, guest = host.pid, last_pid(host)
        os.kill(before, signal.SIGKILL)
        assert wait_for_end(guest)
        assert make_trials(task, SEED)[0].inputs(task)
        assert host.pid != before


def test_warmed_process_lost_twice_is_a_failure_of_the_machine(tmp_path: Path) -> None:
    slow = PLAIN_TASK.replace(
        "return np.exp(x)", "return np.exp(x)\n\nimport time\ntime.sleep(0.5)"
    )
    done = threading.Event()

    def keep_killing(victim: TaskHost) -> None:
        killed: set[int] = set()
        while not done.wait(0.05):
            if victim.guest_pids and victim.pid not in killed:
                killed.add(victim.pid)
                os.kill(victim.pid, signal.SIGKILL)

    with TaskHost() as host:
        thread = threading.Thread(target=keep_killing, args=(host,))
        thread.start()
        try:
            with pytest.raises(MachineError, match="lost 2 times in one call"):
                load_untrusted_task(write(tmp_path, slow), host=host)
        finally:
            done.set()
            thread.join()


def test_hung_process_of_a_task_is_ended_in_time(host: TaskHost, tmp_path: Path) -> None:
    task = load_untrusted_task(write(tmp_path, PLAIN_TASK), host=host, limits=LIMITS)
    pid = last_pid(host)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(TaskError, match="no answer within 4 s"):
        make_trials(task, SEED)[0].inputs(task)
    assert not is_alive(pid)
    assert make_trials(task, SEED)[0].inputs(task)


def test_many_tasks_share_few_processes(
    host: TaskHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_host, "GUESTS_MAX", 2)
    tasks = [
        load_untrusted_task(write(tmp_path, PLAIN_TASK, f"task{number}.py"), host=host)
        for number in range(4)
    ]
    for task in (*tasks, *tasks):
        assert make_trials(task, SEED)[0].inputs(task)
        assert len(host.guest_pids) <= 2


def test_forgotten_task_ends_its_process(host: TaskHost, tmp_path: Path) -> None:
    task = load_untrusted_task(write(tmp_path, PLAIN_TASK), host=host)
    number, pid = host.guest_pids[-1], last_pid(host)
    assert task.outputs
    del task
    assert number not in host.guest_pids
    assert wait_for_end(pid)


def test_task_that_changes_when_it_is_loaded_again_is_refused(
    host: TaskHost, tmp_path: Path
) -> None:
    text = PLAIN_TASK.replace("(8, 16)", "(os.getpid() % 1000 + 2, 16)").replace(
        "import numpy", "import os\nimport numpy"
    )
    task = load_untrusted_task(write(tmp_path, text), host=host)
    os.kill(last_pid(host), signal.SIGKILL)
    with pytest.raises(TaskError, match="something else when it is loaded again"):
        make_trials(task, SEED)[0].inputs(task)


def test_forked_caller_starts_a_process_of_its_own(host: TaskHost, tmp_path: Path) -> None:
    task = load_untrusted_task(write(tmp_path, PLAIN_TASK), host=host)
    before = host.guest_pids
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if make_trials(task, SEED)[0].inputs(task) else 2
            host.close()
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert make_trials(task, SEED)[0].inputs(task)
    assert host.guest_pids == before


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("open('/etc/passwd')", "PermissionError"),
        ("import socket; socket.socket()", "PermissionError"),
        ("while True: pass", "no answer within 4 s"),
    ],
)
def test_reference_that_turns_hostile_later_is_a_task_error(
    body: str, says: str, host: TaskHost, tmp_path: Path
) -> None:
    """It is honest while it is loaded, and until it has been drawn inputs for."""
    text = PLAIN_TASK.replace(
        "    return np.exp(x)", f"    if TURNED:\n        {body}\n    return np.exp(x)"
    )
    text += FORGING.replace("forged = FORGED", "").replace(
        "    return honest(forged if is_run else entry",
        "    global TURNED\n    TURNED = TURNED or is_run\n    return honest(entry",
    )
    path = write(tmp_path, f"TURNED = False\n{text}", "hostile.py")
    task = load_untrusted_task(path, host=host, limits=LIMITS)
    inputs = make_trials(task, SEED)[0].inputs(task)
    with pytest.raises(TaskError, match=says):
        expected(task, inputs)
    check_honest(host, tmp_path)
