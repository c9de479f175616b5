"""The prepared process: imports and warms once, then forks workers that share its pages.

Law: it is a fresh Python with one thread, never a fork of the caller; it judges nothing itself and
holds no task. It ends when the caller does, and its workers with it. Coverage is not measured here.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Final, NoReturn

import msgspec

from nki_agent.chip.spec import Target, load_chip
from nki_agent.farm.wire import (
    PACKET_BYTES,
    Boot,
    Ended,
    FarmLimits,
    Fork,
    Kill,
    Prepared,
    Report,
    Wish,
)
from nki_agent.farm.worker import live
from nki_agent.sandbox.hangup import ended_at_hangup
from nki_agent.sandbox.libc import open_process

TEXT_CHARACTERS: Final = 2000
WARM_MODULES: Final = ("nki_agent.task.torch_reference", "numpy.random", "numpy.linalg")
"""Imported beforehand where their packages are installed."""
YOUNG_OBJECTS_MAX: Final = 10_000
"""New objects behind which garbage is collected: with Python's 700, twice in a verdict."""


def main(arguments: str) -> None:  # pragma: no cover - in the prepared process
    """Serve the socket on standard input until it is closed."""
    control = _take_control()
    try:
        boot: Boot = msgspec.json.decode(arguments, type=Boot)
        with ended_at_hangup(control):
            warm_up()
    except Exception as error:  # noqa: BLE001 - whatever stops us is told to the caller
        failure = f"{type(error).__name__}: {error}"[:TEXT_CHARACTERS]
        _tell(control, Prepared(failure=failure))
        return
    _silence(2)
    _tell(control, Prepared())
    Nursery(control, boot.limits).serve()
    os._exit(0)  # PyTorch would take its time to leave


def warm_up() -> None:  # pragma: no cover - in the prepared process
    """Do all that is the same for every verdict."""
    for name in WARM_MODULES:
        with suppress(ImportError):
            importlib.import_module(name)
    for target in Target:
        load_chip(target)
    sys.dont_write_bytecode = True
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)


class Nursery:  # pragma: no cover - in the prepared process
    """Forks, watches and buries workers."""

    def __init__(self, control: socket.socket, limits: FarmLimits) -> None:
        """Watch the caller from now on."""
        self._control = control
        self._limits = limits
        self._workers: dict[int, tuple[int, int]] = {}
        """Descriptor of a worker → its token and process id."""
        self._caller = open_process(os.getppid())
        self._poller = select.poll()
        self._poller.register(control, select.POLLIN)
        self._poller.register(self._caller, select.POLLIN)

    def serve(self) -> None:
        """Until the caller closes the socket or is gone."""
        while True:
            for descriptor, _ in self._poller.poll():
                if descriptor in self._workers:
                    self._bury(descriptor)
                elif descriptor == self._caller or not self._obey():
                    self._end()
                    return

    def _obey(self) -> bool:
        """One wish of the caller; whether it is still there."""
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._control, PACKET_BYTES, 1)
        except ConnectionError:
            return False
        if not packet:
            return False
        wish: Wish = msgspec.msgpack.decode(packet, type=Wish)
        match wish:
            case Fork(token=token):
                self._fork(token, descriptors[0])
            case Kill(token=token):
                self._kill(token)
        return True

    def _fork(self, token: int, descriptor: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(descriptor)
            _tell(self._control, Ended(token=token, failure=f"fork: {error.strerror}"))
            return
        if pid == 0:
            self._leave(descriptor, parent)
        os.close(descriptor)
        process = open_process(pid)
        self._workers[process] = (token, pid)
        self._poller.register(process, select.POLLIN)

    def _leave(self, descriptor: int, parent: int) -> NoReturn:  # pragma: no cover - in the worker
        """Become a worker, without what belongs to the prepared process."""
        self._control.close()
        for other in (self._caller, *self._workers):
            os.close(other)
        live(socket.socket(fileno=descriptor), parent=parent, limits=self._limits)

    def _kill(self, token: int) -> None:
        """Only a worker that is not buried yet: its process id is still its own."""
        for known, pid in self._workers.values():
            if known == token:
                os.kill(pid, signal.SIGKILL)

    def _bury(self, descriptor: int) -> None:
        token, pid = self._workers.pop(descriptor)
        self._poller.unregister(descriptor)
        os.close(descriptor)
        _, wait_status = os.waitpid(pid, 0)
        _tell(self._control, Ended(token=token, wait_status=wait_status))

    def _end(self) -> None:
        for _, pid in self._workers.values():
            os.kill(pid, signal.SIGKILL)
        for _, pid in self._workers.values():
            os.waitpid(pid, 0)


def _take_control() -> socket.socket:  # pragma: no cover - in the prepared process
    """Move the socket away from standard input; what a task prints goes nowhere."""
    control = socket.socket(fileno=os.dup(0))
    _silence(0, 1)
    return control


def _silence(*streams: int) -> None:  # pragma: no cover - in the prepared process
    null = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(null, stream)
    os.close(null)


def _tell(
    control: socket.socket, report: Report
) -> None:  # pragma: no cover - in the prepared process
    """A report that nobody hears is no failure: the caller's end is seen by other means."""
    with suppress(OSError):
        control.send(msgspec.msgpack.encode(report))
