"""What a child writes is taken as a whole frame or not at all."""

import pytest

from nki_agent.sandbox.wire import (
    HEADER,
    JAILED,
    NO_TICKET,
    RAISED,
    RESULT,
    FrameReader,
    make_ticket,
)


def read(*chunks: bytes, limit: int = 100) -> FrameReader:
    frame = FrameReader(limit=limit)
    for chunk in chunks:
        frame.feed(chunk)
    return frame


@pytest.mark.parametrize("step", [1, 2, 9, 10, 17, 18, 19, 100])
@pytest.mark.parametrize("kind", [RESULT, RAISED])
def test_frame_is_the_same_however_it_is_cut(step: int, kind: bytes) -> None:
    stream = JAILED + HEADER.pack(kind, NO_TICKET, 20) + b"x" * 20
    chunks = [stream[i : i + step] for i in range(0, len(stream), step)]
    assert read(*chunks).frame() == (kind, b"x" * 20)


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        JAILED,
        JAILED + HEADER.pack(RESULT, NO_TICKET, 2) + b"x",
        JAILED + HEADER.pack(RESULT, NO_TICKET, 2) + b"xxx",
        JAILED + HEADER.pack(RESULT, b"12345678", 1) + b"x",
        JAILED + HEADER.pack(b"?", NO_TICKET, 1) + b"x",
        b"?" + HEADER.pack(RESULT, NO_TICKET, 1) + b"x",
    ],
)
def test_anything_else_is_no_frame(stream: bytes) -> None:
    assert read(stream).frame() is None


def test_limit_counts_what_is_announced_and_what_is_written() -> None:
    assert not read(JAILED + HEADER.pack(RESULT, NO_TICKET, 100), bytes(100)).is_over
    assert read(JAILED + HEADER.pack(RESULT, NO_TICKET, 101)).is_over
    assert read(JAILED + HEADER.pack(RESULT, NO_TICKET, 5), bytes(60), bytes(60)).is_over
    assert read(JAILED + HEADER.pack(RESULT, NO_TICKET, 101)).frame() is None


def test_failure_of_the_jail_is_text_only_before_the_mark() -> None:
    early = read(b"Fno mem", b"ory to lock the child")
    assert (early.is_jailed, early.text()) == (False, "no memory to lock the child")
    assert read(JAILED, b"Fno memory").is_jailed


def test_frame_is_taken_for_its_own_ticket_only() -> None:
    ticket = make_ticket()
    reader = FrameReader(limit=100, ticket=ticket, is_jailed=True)
    reader.feed(HEADER.pack(RESULT, ticket, 1) + b"x")
    assert reader.frame() == (RESULT, b"x")
    late = FrameReader(limit=100, ticket=make_ticket(), is_jailed=True)
    late.feed(HEADER.pack(RESULT, ticket, 1) + b"x")
    assert (late.is_settled, late.frame()) == (True, None)
