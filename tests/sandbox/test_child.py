"""What a child writes for each way in which the callable can end; run here, without a jail."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nki_agent.sandbox.child import answer, read_all
from nki_agent.sandbox.wire import HEADER, MEMORY, NO_TICKET, RAISED, RESULT


def give(payload: bytes) -> bytes:
    return payload[::-1]


def run_out_of_memory(payload: bytes) -> bytes:
    raise MemoryError(payload)


def fail(payload: bytes) -> bytes:
    raise ValueError(payload.decode())


class MuteError(Exception):
    def __str__(self) -> str:
        raise self


def fail_silently(payload: bytes) -> bytes:
    raise MuteError


def answer_of(entry: Callable[[bytes], bytes]) -> tuple[int | None, bytes]:
    reader, writer = os.pipe()
    status = answer(entry, b"abc", writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        return status, file.read()


@pytest.mark.parametrize(
    ("entry", "kind", "text"),
    [
        (give, RESULT, b"cba"),
        (run_out_of_memory, MEMORY, b""),
        (fail, RAISED, b"ValueError: abc at test_child.py:"),
        (fail_silently, RAISED, b"an exception that cannot be printed"),
    ],
)
def test_frame_tells_how_the_callable_ended(
    entry: Callable[[bytes], bytes], kind: bytes, text: bytes
) -> None:
    status, written = answer_of(entry)
    assert status is None
    assert HEADER.unpack_from(written) == (kind, NO_TICKET, len(written) - HEADER.size)
    assert written[HEADER.size :].startswith(text)


@pytest.mark.parametrize(("code", "status"), [(None, 0), (0, 0), (3, 3), (258, 2), ("text", 1)])
def test_exit_of_the_callable_is_a_status_without_a_frame(code: object, status: int) -> None:
    def leave(payload: bytes) -> bytes:
        raise SystemExit(code)

    assert answer_of(leave) == (status, b"")


def test_payload_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.write_bytes(bytes(3 << 20))
    with path.open("rb") as file:
        file.seek(5)
        assert read_all(file.fileno()) == bytes(3 << 20)
