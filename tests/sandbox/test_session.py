"""Runs of one kernel: one child while it gives results, a fresh one after anything else."""

from __future__ import annotations

import os
import signal
import textwrap
from pathlib import Path

import pytest

from nki_agent.sandbox.outcome import Limits, Outcome, OutcomeKind
from nki_agent.sandbox.pool import Sandbox
from nki_agent.sandbox.session import Session
from tests.sandbox.starting import FOLDER, LIMITS, PREAMBLE

SHORT = Limits(seconds=1.0, cpu_seconds=5, memory_bytes=256 << 20, result_bytes=1 << 20)
COUNT = "math.seen = getattr(math, 'seen', 0) + 1"
CHANNEL = "max(descriptors())"
TICKET = """
frame = sys._getframe()
while 'ticket' not in frame.f_locals:
    frame = frame.f_back
"""
FORGED = f"""
{TICKET}
os.write({CHANNEL}, b'=' + frame.f_locals['ticket'] + (1).to_bytes(8, 'little') + b'x')
"""
ENDS = {
    "result": "return b'right'",
    "raises": "raise ValueError('no')",
    "exits": "os._exit(0)",
    "exits with a status": "sys.exit(3)",
    "kills itself": "ctypes.string_at(0)",
    "takes memory": "return bytes(1 << 30)",
    "takes time": "time.sleep(60)",
    "says too much": "return bytes((1 << 20) + 1)",
    "says no answer": f"os.write({CHANNEL}, b'no answer at all'); os._exit(0)",
}


def source_of(body: str) -> bytes:
    """The source of a function with this body."""
    indented = textwrap.indent(textwrap.dedent(body), "    ")
    return f"{PREAMBLE}import math\n\n\ndef run():\n{indented}\n".encode()


def run(session: Session, body: str) -> Outcome:
    return session.run(source_of(body))


def children_of(sandbox: Sandbox) -> list[int]:
    path = Path(f"/proc/{sandbox.pid}/task/{sandbox.pid}/children")
    return list(map(int, path.read_text(encoding="ascii").split()))


def test_child_that_gave_a_result_is_asked_again() -> None:
    with Sandbox("running:remember", limits=LIMITS, import_paths=(str(FOLDER),)) as sandbox:
        with sandbox.open() as session:
            assert [session.run(b"x").data for _ in range(3)] == [b"1", b"2", b"3"]
        with sandbox.open() as session:
            assert session.run(b"x").data == b"1"


@pytest.mark.parametrize("num_bytes", [0, 1, 65_536, 40 << 20])
def test_bytes_come_back_as_they_went_each_time(num_bytes: int) -> None:
    payload = bytes(range(256)) * (num_bytes // 256) + b"x" * (num_bytes % 256)
    with (
        Sandbox("running:echo", import_paths=(str(FOLDER),)) as sandbox,
        sandbox.open() as session,
    ):
        assert all(session.run(payload).data == payload for _ in range(2))


@pytest.mark.parametrize("body", ENDS.values(), ids=ENDS)
def test_run_of_a_session_ends_as_a_single_run(sandbox: Sandbox, body: str) -> None:
    single = sandbox.run(source_of(body), limits=SHORT)
    with sandbox.open(limits=SHORT) as session:
        first = run(session, body)
        run(session, "return b'right'")
        later = run(session, body)
    assert first.kind is later.kind is single.kind
    assert first.data == later.data == single.data


@pytest.mark.parametrize("body", [b for n, b in ENDS.items() if n != "result"])
def test_run_after_a_failure_is_in_a_fresh_child(sandbox: Sandbox, body: str) -> None:
    with sandbox.open(limits=SHORT) as session:
        run(session, f"{COUNT}; return b''")
        run(session, body)
        assert session.is_fresh
        assert run(session, f"{COUNT}; return math.seen").data == b"1"


def test_failure_that_an_earlier_run_caused_is_no_failure(sandbox: Sandbox) -> None:
    body = f"""
    {COUNT}
    if math.seen > 1:
        raise ValueError
    return b'right'
    """
    with sandbox.open() as session:
        assert [run(session, body).data for _ in range(3)] == [b"right"] * 3


@pytest.mark.parametrize("seconds", [0, 0.2])
def test_answer_that_nobody_asked_for_is_not_taken(sandbox: Sandbox, seconds: float) -> None:
    with sandbox.open(limits=SHORT) as session:
        # The forged answer first, the own one before or after the next question is asked.
        first = run(session, f"{FORGED}\ntime.sleep({seconds})\nreturn b'mine'")
        # A child may answer for itself as it likes; read at once, the two are no answer.
        assert (first.kind, first.data) in [(OutcomeKind.RESULT, b"x"), (OutcomeKind.EXITED, b"")]
        assert [run(session, f"return b'{n}'").data for n in range(3)] == [b"0", b"1", b"2"]


def test_two_answers_at_once_are_none(sandbox: Sandbox) -> None:
    with sandbox.open(limits=SHORT) as session:
        outcome = run(session, FORGED.replace("b'x'", "b'xx'") + "\nreturn b'mine'")
        assert (outcome.kind, outcome.data) == (OutcomeKind.EXITED, b"")
        assert run(session, "return b'next'").data == b"next"


def test_child_that_ends_between_runs_is_replaced(sandbox: Sandbox) -> None:
    with sandbox.open() as session:
        run(session, "return b'right'")
        (child,) = children_of(sandbox)
        os.kill(child, signal.SIGKILL)
        assert run(session, "return b'right'").data == b"right"


def test_lost_process_is_replaced_within_a_session(sandbox: Sandbox) -> None:
    with sandbox.open() as session:
        run(session, "return b'right'")
        assert sandbox.pid is not None
        os.kill(sandbox.pid, signal.SIGKILL)
        assert run(session, "return b'right'").data == b"right"


def test_closed_session_leaves_no_child_and_no_descriptor(sandbox: Sandbox) -> None:
    sandbox.run(source_of("return b''"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with sandbox.open() as session:
            run(session, "return b'right'")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert children_of(sandbox) == []


def test_single_run_follows_a_session(sandbox: Sandbox) -> None:
    with sandbox.open() as session:
        assert run(session, "return b'first'").kind is OutcomeKind.RESULT
    assert sandbox.run(source_of("return b'second'")).data == b"second"
