"""Work on this machine's cores: each order to a process of its own kind, answers in order.

Law: answers come in the order of the orders, on any number of processes. A process that dies or
hangs costs its order alone: a fresh one tries it again, and then it is `Lost`. A process that has
grown is replaced. With the caller gone, a process ends after the order that it has.
"""

from __future__ import annotations

import importlib
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Final

import msgspec

from nki_agent.base.errors import UsageError
from nki_agent.farm.job import Faulted, Lost, Unusable
from nki_agent.farm.worker import end_of, read_resident_bytes

Answerer = Callable[[bytes], bytes]
"""What a process does with an order; whatever it raises becomes a failure."""
Failure = Faulted | Lost | Unusable
AHEAD: Final = 32
"""Orders for each process that may wait behind one that takes long."""
START_SECONDS: Final = 300.0
STOPPED: Final = "the work was stopped"
ATTEMPTS: Final = 2
"""Processes that an order may cost."""
GROWTH_BYTES: Final = 1 << 30
"""Resident memory that a process may gain over its birth."""
_HEAD: Final = struct.Struct("<cQ")
_ANSWER, _FAILURE = b"A", b"F"
_LAST: Final = {_ANSWER: b"a", _FAILURE: b"f"}
"""The same, from a process that has grown and ends now."""
_LIBRARIES: Final = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_BOOT: Final = (
    "import sys; sys.path.extend(p for p in sys.argv[2:] if p not in sys.path); "
    "from nki_agent.corpus.workers import main; main(sys.argv[1])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """How many processes, made by which function, and how long one order may take."""

    entry: str
    """`module:function`; the function makes an `Answerer`, once in each process."""
    workers: int
    seconds: float = 300.0
    """For one order; a process that starts is waited for apart."""

    def __post_init__(self) -> None:
        """Refuse a crew of nobody."""
        if self.workers < 1:
            raise UsageError(f"{self.workers} workers cannot work", hint="one is the least")

    def work(self, orders: Iterable[bytes]) -> Generator[bytes | Failure, None, None]:
        """One answer for each order, in their order; close it to stop early."""
        waiting: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        answers: queue.SimpleQueue[tuple[int, bytes | Failure]] = queue.SimpleQueue()
        hands = [_Hand(self, waiting, answers) for _ in range(self.workers)]
        numbered = enumerate(orders)
        ready: dict[int, bytes | Failure] = {}
        num_begun = num_given = 0
        try:
            for hand in hands:
                hand.start()
            while True:
                room = self.workers * AHEAD - (num_begun - num_given)
                for order in islice(numbered, room):
                    waiting.put(order)
                    num_begun += 1
                if num_given == num_begun:
                    return
                while num_given not in ready:
                    number, answer = answers.get()
                    ready[number] = answer
                yield ready.pop(num_given)
                num_given += 1
        finally:
            # All are told before one is waited for: each may take the word that was for another.
            for hand in hands:
                hand.stop()
            for hand in hands:
                hand.wait()


class _Hand(threading.Thread):
    """Gives orders to one process and takes its answers."""

    def __init__(
        self,
        crew: Crew,
        waiting: queue.SimpleQueue[tuple[int, bytes] | None],
        answers: queue.SimpleQueue[tuple[int, bytes | Failure]],
    ) -> None:
        super().__init__(name="corpus", daemon=True)
        self._crew = crew
        self._waiting = waiting
        self._answers = answers
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self._lock = threading.Lock()

    def run(self) -> None:
        """Until it is stopped."""
        while not self._is_stopped and (order := self._waiting.get()) is not None:
            self._answers.put((order[0], self._carry_out(order[1])))

    def stop(self) -> None:
        """End the process; what it does is lost."""
        with self._lock:
            self._is_stopped = True  # from now on no process is started
            if self._process is not None:
                self._process.kill()
        self._waiting.put(None)

    def wait(self) -> None:
        """Return when thread and process are gone; the thread alone closes the pipes it reads."""
        self.join()
        self._end()

    def _carry_out(self, order: bytes) -> bytes | Failure:
        reason = ""
        for _ in range(ATTEMPTS):
            answer = self._ask(order)
            if not isinstance(answer, str):
                return answer
            reason = answer
        return Lost(reason)

    def _ask(self, order: bytes) -> bytes | Failure | str:
        """The answer; a text says why there is none."""
        with self._lock:
            if self._is_stopped:
                return STOPPED
            if self._process is None:
                self._process = _start(self._crew.entry)
                is_new = True
            else:
                is_new = False
            process = self._process
        try:
            if is_new:
                _exchange(process, b"", seconds=START_SECONDS)
            kind, data = _exchange(process, order, seconds=self._crew.seconds)
        except TimeoutError as error:
            self._end()
            return str(error)
        except (OSError, EOFError):
            self._end()
            return f"its process ended with status {process.returncode}"
        if kind in _LAST.values():
            self._end()
            kind = kind.upper()
        return data if kind == _ANSWER else msgspec.msgpack.decode(data, type=Failure)

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()


def _exchange(
    process: subprocess.Popen[bytes], order: bytes, *, seconds: float
) -> tuple[bytes, bytes]:
    """Send an order and wait for the answer; a process that is late is killed."""
    assert process.stdin is not None
    assert process.stdout is not None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, give_up)
    timer.start()
    try:
        _write(process.stdin, _ANSWER, order)
        return _read(process.stdout)
    except (OSError, EOFError):
        if late.is_set():
            raise TimeoutError(f"it takes longer than {seconds:g} s") from None
        raise
    finally:
        timer.cancel()


def _start(entry: str) -> subprocess.Popen[bytes]:
    here = str(Path(__file__).resolve().parents[2])
    paths = dict.fromkeys([here, *(str(Path(p).absolute()) for p in sys.path if p)])
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT, entry, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | dict.fromkeys(_LIBRARIES, "1"),
    )


def main(entry: str) -> None:  # pragma: no cover - in the process
    """Answer the orders on standard input until it is closed; what others print goes nowhere."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends us
    given, taken = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    module, _, name = entry.partition(":")
    answer: Answerer = getattr(importlib.import_module(module), name)()
    before = read_resident_bytes()
    with suppress(EOFError):
        _write(taken, *_read(given))  # the first order only asks whether we are there
        while True:
            _, order = _read(given)
            kind, data = _answer(answer, order)
            if read_resident_bytes() - before > GROWTH_BYTES:
                kind = _LAST[kind]
            _write(taken, kind, data)
    os._exit(0)  # PyTorch would take its time to leave


def _answer(answer: Answerer, order: bytes) -> tuple[bytes, bytes]:  # pragma: no cover - as above
    try:
        return _ANSWER, answer(order)
    except BaseException as error:  # noqa: BLE001 - every error is one of the failures
        return _FAILURE, msgspec.msgpack.encode(end_of(error))


def _write(pipe: IO[bytes], kind: bytes, data: bytes) -> None:
    pipe.write(_HEAD.pack(kind, len(data)) + data)
    pipe.flush()


def _read(pipe: IO[bytes]) -> tuple[bytes, bytes]:
    kind, size = _HEAD.unpack(_read_exactly(pipe, _HEAD.size))
    return kind, _read_exactly(pipe, size)


def _read_exactly(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
