"""What a forked child does: lock itself, run the callable, write one frame, end.

Law: `JAILED` is written between the lock and the callable, so a failure of ours cannot be confused
with one that a kernel feigns; after it, all that is written is untrusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from nki_agent.sandbox.wire import (
    FAILED,
    HEADER,
    JAILED,
    MEMORY,
    NO_TICKET,
    RAISED,
    REQUEST,
    RESULT,
)

Entry = Callable[[bytes], bytes]

FAILURE_STATUS: Final = 70
"""Exit status when the jail could not be set up (EX_SOFTWARE)."""
TEXT_CHARACTERS: Final = 300
"""Kept of an exception's message, so that its place is still shown after `clean`."""
EXIT_MASK: Final = 0xFF
CHUNK_BYTES: Final = 1 << 20


def echo(payload: bytes) -> bytes:
    """Give the payload back: the entry of a sandbox that is only asked for its status."""
    return payload


def live(
    entry: Entry, *, payload: int, result: int, lock: Callable[[], None]
) -> NoReturn:  # pragma: no cover - in the child
    """Run `entry` on what the descriptor `payload` holds, and write to the descriptor `result`."""
    status = FAILURE_STATUS
    try:
        data = read_all(payload)
        lock()
        _write_all(result, JAILED)
        status = answer(entry, data, result) or 0
    except BaseException as error:  # noqa: BLE001 - the process ends here, whatever it was
        _write_all(result, FAILED + _describe(error))
    finally:
        os._exit(status)


def live_on(
    make_entry: Callable[[], Entry], *, channel: int, lock: Callable[[], None]
) -> NoReturn:  # pragma: no cover - in the child
    """Answer every request on the channel with the same entry, until nobody asks any more."""
    status = FAILURE_STATUS
    try:
        lock()
        _write_all(channel, JAILED)
        entry, asked_to_exit = make_entry(), None
        while asked_to_exit is None and (asked := _read_request(channel)) is not None:
            ticket, payload = asked
            asked_to_exit = answer(entry, payload, channel, ticket=ticket)
        status = asked_to_exit or 0
    except BaseException as error:  # noqa: BLE001 - the process ends here, whatever it was
        _write_all(channel, FAILED + _describe(error))
    finally:
        os._exit(status)


def _read_request(channel: int) -> tuple[bytes, bytes] | None:  # pragma: no cover - in the child
    """Ticket and payload of the next request; None at the end of the channel."""
    head = _read_exactly(channel, REQUEST.size)
    if head is None:
        return None
    ticket, size = REQUEST.unpack(head)
    payload = _read_exactly(channel, size)
    return None if payload is None else (ticket, payload)


def _read_exactly(channel: int, size: int) -> bytes | None:  # pragma: no cover - in the child
    data = bytearray()
    while len(data) < size:
        chunk = os.read(channel, min(size - len(data), CHUNK_BYTES))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def answer(entry: Entry, payload: bytes, result: int, *, ticket: bytes = NO_TICKET) -> int | None:
    """Write the frame; where the entry asks to exit instead, the status that it asks for."""
    try:
        kind, data = RESULT, entry(payload)
        if not isinstance(data, bytes):
            raise TypeError(f"the entry gave {type(data).__name__}, not bytes")
    except MemoryError:
        kind, data = MEMORY, b""
    except SystemExit as error:
        return _exit_status(error.code)
    except BaseException as error:  # noqa: BLE001 - a kernel's exception is data
        kind, data = RAISED, _describe(error)
    # Out of the handlers: the exception is gone, and with it what its frames held.
    _write_all(result, HEADER.pack(kind, ticket, len(data)))
    _write_all(result, data)
    return None


def _exit_status(code: object) -> int:
    """The status that `sys.exit(code)` asks for."""
    if code is None:
        return 0
    return code & EXIT_MASK if isinstance(code, int) else 1


def _describe(error: BaseException) -> bytes:
    """Type, message and innermost line, as far as the exception lets itself be printed."""
    try:
        place, trace = "", error.__traceback__
        while trace is not None:
            name = Path(trace.tb_frame.f_code.co_filename).name
            place, trace = f" at {name}:{trace.tb_lineno}", trace.tb_next
        text = f"{type(error).__name__}: {error}"[:TEXT_CHARACTERS] + place
        return text.encode(errors="replace")
    except BaseException:  # noqa: BLE001 - a hostile `__str__`
        return b"an exception that cannot be printed"


def read_all(descriptor: int) -> bytes:
    """The whole of a file; a single read stops at 2 GiB."""
    size = os.fstat(descriptor).st_size
    chunks: list[bytes] = []
    while (offset := sum(map(len, chunks))) < size:
        chunks.append(os.pread(descriptor, size - offset, offset))
    return b"".join(chunks)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
