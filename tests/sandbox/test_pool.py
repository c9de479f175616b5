"""The sandbox as its callers see it: results, failures of ours, and what survives what."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nki_agent.base.errors import MachineError
from nki_agent.sandbox.outcome import Layer, LayerState, Limits, Status
from nki_agent.sandbox.pool import OutcomeKind, Sandbox, require_enough, status
from tests.sandbox.starting import FOLDER, LIMITS, run_source, start_sandbox
from tests.source import ROOT

SLOW = [pytest.mark.slow, pytest.mark.timeout(300)]
PAUSE = threading.Event()
CALLER = """
from tests.sandbox.starting import run_source, start_sandbox
first, second = start_sandbox(), start_sandbox()
print(first.pid, second.pid, flush=True)
run_source(first, "time.sleep(60)")
"""
SCARCE = """
import resource
from nki_agent.base.errors import MachineError
from tests.sandbox.starting import run_source, start_sandbox

sandbox = start_sandbox()
usual = resource.getrlimit(resource.{limit})
resource.setrlimit(resource.{limit}, (0, usual[1]))
try:
    if "{when}" == "start":
        sandbox.close()
    run_source(sandbox, "return b'right'")
except MachineError as error:
    seen = error
resource.setrlimit(resource.{limit}, usual)
print(type(seen).__name__)
print(run_source(sandbox, "return b'right'").data.decode())
"""


def start(entry: str) -> Sandbox:
    return Sandbox(f"running:{entry}", limits=LIMITS, import_paths=(str(FOLDER),))


def is_alive(pid: int | None) -> bool:
    """Whether it runs; one that only waits to be counted by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_end(pid: int) -> bool:
    return any(not is_alive(pid) or PAUSE.wait(0.02) for _ in range(250))


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def count_descriptors(pid: int | None) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except PermissionError:  # an ordinary user may not look into the warmed process
        return -1


@pytest.mark.parametrize("num_bytes", [0, 1, 65_536, 40 << 20])
def test_bytes_come_back_as_they_went(num_bytes: int) -> None:
    payload = bytes(range(256)) * (num_bytes // 256) + b"x" * (num_bytes % 256)
    with start("echo") as sandbox:
        outcome = sandbox.run(payload, limits=Limits())
    assert (outcome.kind, outcome.detail) == (OutcomeKind.RESULT, "")
    assert outcome.data == payload
    assert outcome.wall_ns > 0
    assert outcome.max_rss_bytes > num_bytes


def test_run_starts_from_the_warmed_process(sandbox: Sandbox) -> None:
    with start("remember") as remembering:
        assert [remembering.run(b"x").data for _ in range(3)] == [b"1"] * 3
    assert run_source(sandbox, "import math; math.pi = 3; return 0").data == b"0"
    assert run_source(sandbox, "import math; return math.pi > 3").data == b"True"


def test_result_that_is_not_bytes_is_an_error_of_the_entry() -> None:
    with start("give_text") as sandbox:
        outcome = sandbox.run(b"x")
    assert outcome.kind is OutcomeKind.RAISED
    assert outcome.detail.startswith("TypeError: the entry gave str, not bytes at child.py:")


def test_result_over_the_limit_is_not_taken(sandbox: Sandbox) -> None:
    outcome = run_source(sandbox, "return bytes((1 << 20) + 1)")
    assert (outcome.kind, outcome.data) == (OutcomeKind.OVERSIZE, b"")
    assert "1048576 bytes" in outcome.detail


def test_exception_is_told_with_its_innermost_place(sandbox: Sandbox) -> None:
    outcome = run_source(sandbox, "raise ValueError('two\\nlines')")
    assert re.fullmatch(r"ValueError: two lines at <string>:\d+", outcome.detail)


def test_same_payload_gives_the_same_bytes_in_every_process() -> None:
    body = "return repr([hash('x'), list({c for c in 'abcdefghijklmnop'})]).encode()"
    answers = set()
    for _ in range(2):
        with start_sandbox() as sandbox:
            answers |= {run_source(sandbox, body).data for _ in range(2)}
    assert len(answers) == 1


def test_environment_of_the_caller_is_not_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-of-the-caller")
    with start_sandbox() as sandbox:
        zygote = Path(f"/proc/{sandbox.pid}/environ")
        if os.access(zygote, os.R_OK) and os.geteuid() == 0:
            assert b"secret" not in zygote.read_bytes()
        body = """
        LIBC.getenv.restype = ctypes.c_char_p
        return repr((dict(os.environ), LIBC.getenv(b'ANTHROPIC_API_KEY'), sys.argv, sys.orig_argv))
        """
        outcome = run_source(sandbox, body)
    assert outcome.data == repr("({}, None, [''], [''])").encode()


def test_child_holds_four_descriptors_and_no_more(sandbox: Sandbox) -> None:
    with Path(__file__).open("rb") as inherited:
        os.set_inheritable(inherited.fileno(), True)
        with start_sandbox() as later:
            for one in (sandbox, later):
                assert run_source(one, "return len(list(descriptors()))").data == b"4"


def test_lost_process_is_replaced_between_runs(sandbox: Sandbox) -> None:
    before = sandbox.pid
    kill(before)
    assert run_source(sandbox, "return b'right'").data == b"right"
    assert sandbox.pid != before


def test_lost_process_is_replaced_within_a_run(sandbox: Sandbox) -> None:
    before = sandbox.pid
    timer = threading.Timer(0.2, kill, [before])
    timer.start()
    outcome = run_source(sandbox, "time.sleep(0.4); return b'right'")
    timer.join()
    assert outcome.data == b"right"
    assert sandbox.pid != before


def test_killed_child_is_an_outcome_and_harms_no_other_run(sandbox: Sandbox) -> None:
    children = Path(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children")
    before = sandbox.pid
    timer = threading.Timer(0.2, lambda: kill(int(children.read_text().split()[0])))
    timer.start()
    outcome = run_source(sandbox, "time.sleep(2)")
    timer.join()
    assert outcome.kind is OutcomeKind.KILLED
    assert "ran out of memory" in outcome.detail
    assert run_source(sandbox, "return b'right'").data == b"right"
    assert sandbox.pid == before


@pytest.mark.parametrize("limit", ["RLIMIT_FSIZE", "RLIMIT_NOFILE"])
@pytest.mark.parametrize("when", ["run", "start"])
def test_machine_without_room_is_a_failure_of_the_machine(limit: str, when: str) -> None:
    """No room for a byte in a file, as on a full disk, or no descriptor; it then comes back."""
    code = SCARCE.format(limit=limit, when=when)
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, "MachineError\nright\n"), found.stderr


def test_sandbox_needs_no_folder_that_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    with start("echo") as sandbox:
        assert sandbox.run(b"x" * (1 << 20)).kind is OutcomeKind.RESULT


def test_process_lost_twice_in_a_run_is_a_failure_of_the_machine(sandbox: Sandbox) -> None:
    done = threading.Event()

    def keep_killing() -> None:
        killed: set[int] = set()
        while not done.wait(0.05):
            pid = sandbox.pid
            if pid is not None and pid not in killed:
                killed.add(pid)
                kill(pid)

    thread = threading.Thread(target=keep_killing)
    thread.start()
    try:
        with pytest.raises(MachineError, match="lost 2 times in one run"):
            run_source(sandbox, "time.sleep(2)")
    finally:
        done.set()
        thread.join()
    assert run_source(sandbox, "return b'right'").data == b"right"


def test_child_dies_with_the_warmed_process(sandbox: Sandbox) -> None:
    """Killed outright, the process can't tell its child; Linux does."""
    children = Path(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children")
    seen: list[int] = []

    def look_then_kill() -> None:
        seen.extend(map(int, children.read_text().split()))
        kill(sandbox.pid)

    timer = threading.Timer(0.2, look_then_kill)
    timer.start()
    run_source(sandbox, "time.sleep(0.5)")
    timer.join()
    assert len(seen) == 1
    assert wait_for_end(seen[0])


def test_interrupted_run_leaves_no_stale_answer(sandbox: Sandbox) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_source(sandbox, "time.sleep(0.3); return b'stale'")
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert run_source(sandbox, "return b'right'").data == b"right"


def test_two_sandboxes_live_and_end_apart() -> None:
    with start_sandbox() as first, start_sandbox() as second:
        assert run_source(first, "return b'1'").data == b"1"
        assert run_source(second, "return b'2'").data == b"2"
        gone = first.pid
        first.close()
        assert not is_alive(gone)
        assert run_source(second, "return b'2'").data == b"2"


def test_killed_caller_takes_its_processes_with_it() -> None:
    """Also the first one's, though the second began while the first one's socket was open."""
    with subprocess.Popen(
        [sys.executable, "-c", CALLER], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdout is not None
        pids = [int(pid) for pid in caller.stdout.readline().split()]
        caller.kill()
    for pid in pids:
        assert wait_for_end(pid)


def test_closed_sandbox_starts_again_when_asked() -> None:
    sandbox = start("echo")
    sandbox.close()
    sandbox.close()
    assert sandbox.pid is None
    with sandbox:
        assert sandbox.run(b"x").data == b"x"


def test_forgotten_sandbox_ends_its_process() -> None:
    sandbox = start("echo")
    pid = sandbox.pid
    del sandbox
    gc.collect()
    assert not is_alive(pid)


def test_forked_caller_does_not_touch_the_process_of_its_parent(sandbox: Sandbox) -> None:
    sandbox.run(b"def run(): return 1")
    before = sandbox.pid
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with sandbox:
                apart = run_source(sandbox, "return b'right'").data == b"right"
                status = 0 if apart and sandbox.pid != before else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert run_source(sandbox, "return b'right'").data == b"right"
    assert sandbox.pid == before


@pytest.mark.parametrize("num_runs", [100, pytest.param(10_000, marks=SLOW)])
def test_many_runs_leave_nothing_behind(num_runs: int, sandbox: Sandbox) -> None:
    body = "x = bytearray(1 << 20); return bytes(100_000)"
    run_source(sandbox, body)
    pids = (os.getpid(), sandbox.pid)
    memory = Path(f"/proc/{sandbox.pid}/statm")
    before = [count_descriptors(pid) for pid in pids], int(memory.read_text().split()[1])
    for _ in range(num_runs):
        run_source(sandbox, body)
    after = [count_descriptors(pid) for pid in pids], int(memory.read_text().split()[1])
    assert after[0] == before[0]
    assert after[1] - before[1] < 64  # pages
    assert not Path(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children").read_text().split()


@pytest.mark.slow
def test_hung_process_is_replaced(sandbox: Sandbox) -> None:
    """Stopped, it neither answers nor ends: the run waits for its time, then asks another."""
    before = sandbox.pid
    assert before is not None
    os.kill(before, signal.SIGSTOP)
    outcome = run_source(sandbox, "return b'right'", limits=Limits(seconds=1.0))
    assert outcome.data == b"right"
    assert not is_alive(before)


def test_hung_process_does_not_hold_its_caller_at_the_end() -> None:
    sandbox = start("echo")
    pid = sandbox.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    sandbox.close()
    assert not is_alive(pid)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("no_such_module_here:run", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        ("running:no_such_name", "AttributeError: module 'running' has no attribute"),
        ("running:NOT_CALLABLE", "TypeError: running:NOT_CALLABLE is not callable"),
    ],
)
def test_entry_that_cannot_be_had_is_a_failure_of_ours(entry: str, says: str) -> None:
    with pytest.raises(MachineError, match=says):
        Sandbox(entry, import_paths=(str(FOLDER),))


def test_limit_that_leaves_no_time_to_begin_is_a_failure_of_ours(sandbox: Sandbox) -> None:
    with pytest.raises(MachineError, match="could not lock a child"):
        run_source(sandbox, "return 1", limits=Limits(seconds=0.0))
    assert run_source(sandbox, "return b'right'").data == b"right"


def test_status_names_every_layer_with_its_reason() -> None:
    found = status()
    assert [state.layer for state in found.layers] == list(Layer)
    assert all(state.detail for state in found.layers)
    assert found.is_enough
    assert re.search(r"^rlimits    on  memory", str(found), re.MULTILINE)


@pytest.mark.parametrize("layer", Layer)
def test_one_layer_around_the_files_is_enough(layer: Layer) -> None:
    found = Status(tuple(LayerState(one, active=one is layer, detail="") for one in Layer))
    assert found.is_enough is (layer in {Layer.UID, Layer.LANDLOCK, Layer.SECCOMP})


def test_machine_without_layers_is_refused_unless_allowed() -> None:
    nothing = Status((LayerState(Layer.LANDLOCK, active=False, detail="too old"),))
    require_enough(nothing, allow_unsandboxed=True)
    with pytest.raises(MachineError, match="landlock   off too old"):
        require_enough(nothing, allow_unsandboxed=False)
