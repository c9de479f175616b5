"""The warmed process: imports once, then forks one jailed child per request.

Law: it holds no data, key or descriptor of the trusted process, and no code of a kernel ever runs
in it, so that one kernel cannot reach the next. The hash seed is fixed, so that equal payloads give
equal bytes in every process. Coverage is not measured in it: its environment is empty, and a child
may write no file.
"""

from __future__ import annotations

import codecs
import gc
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from nki_agent.sandbox import child
from nki_agent.sandbox import jail as layers
from nki_agent.sandbox.guests import count_end, serve_guests
from nki_agent.sandbox.hangup import ended_at_hangup
from nki_agent.sandbox.jail import Jail
from nki_agent.sandbox.libc import open_process
from nki_agent.sandbox.outcome import Limits
from nki_agent.sandbox.wire import (
    KILL,
    PACKET_BYTES,
    QUIT,
    RUN,
    STAY,
    TEXT_BYTES,
    Boot,
    End,
    Ready,
)

STANDARD_MODULES: Final = (
    *("abc", "ast", "base64", "bisect", "collections", "collections.abc", "contextlib", "copy"),
    *("dataclasses", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "inspect"),
    *("io", "itertools", "json", "linecache", "logging", "math", "numbers", "operator", "pathlib"),
    *("pprint", "random", "re", "statistics", "string", "struct", "textwrap", "time", "traceback"),
    *("types", "typing", "unicodedata", "warnings"),
)
"""Imported for every kernel: as root, a child may lack the right to read Python's own folder."""

CODECS: Final = ("ascii", "latin-1", "utf-8", "utf-16", "unicode_escape")
"""Looked up beforehand for the same reason."""

OTHERS_PACKAGES: Final = ("site-packages", "dist-packages")
"""Folders inside the standard library that are not part of it."""

OUT_OF_MEMORY_SCORE: Final = b"1000"
"""Linux takes a process with this score first when memory runs out, the largest child of all."""


def main(arguments: str) -> None:  # pragma: no cover - in the zygote
    """Serve the socket on standard input until it is closed."""
    control = _take_control()
    try:
        boot: Boot = msgspec.json.decode(arguments, type=Boot)
        with ended_at_hangup(control):
            entry, jail = _warm_up(boot)
    except Exception as error:  # noqa: BLE001 - whatever stops us is told to the trusted process
        failure = f"{type(error).__name__}: {error}"[:TEXT_BYTES]
        control.send(msgspec.msgpack.encode(Ready(failure=failure)))
        return
    control.send(msgspec.msgpack.encode(Ready(status=jail.status)))
    if boot.guests:
        serve_guests(control, entry, jail)
    else:
        serve(control, entry, jail)


def _take_control() -> socket.socket:  # pragma: no cover - in the zygote
    """Move the socket away from standard input, and silence the standard streams."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.close(null)
    return control


def _warm_up(boot: Boot) -> tuple[Callable[..., Any], Jail]:  # pragma: no cover - in the zygote
    """Import all that a kernel may need, then find the layers of this machine."""
    standard = [path for path in sys.path if path not in boot.import_paths]
    layers.lower_common_limits()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_bytes(OUT_OF_MEMORY_SCORE)
    namespaces = layers.leave_namespaces(is_ringed=boot.ring.active)
    with nullcontext() if boot.guests else without_fork_hooks():
        for name in (*STANDARD_MODULES, *boot.preload):
            importlib.import_module(name)
        entry = find_entry(boot.entry)
        if boot.warm_up:
            find_entry(boot.warm_up)()
    for name in CODECS:
        codecs.lookup(name)
    readable = [*list_standard_paths(standard), *list_package_paths(boot.own_packages)]
    jail = layers.prepare_jail(readable, ring=boot.ring, namespaces=namespaces)
    sys.dont_write_bytecode = True
    sys.argv[:] = sys.orig_argv[:] = [""]
    os.environ.clear()
    layers.hide_memory()
    gc.collect()
    gc.freeze()
    return entry, jail


@contextmanager
def without_fork_hooks() -> Iterator[None]:
    """Let modules that are imported meanwhile have nothing done in each child.

    `random` would draw a seed and `threading` and `logging` make locks: half of what a fork costs.
    A child has one thread, and chance that differs from child to child is of no use to a kernel.
    """
    register = os.register_at_fork
    os.register_at_fork = _register_nothing
    try:
        yield
    finally:
        os.register_at_fork = register


def _register_nothing(**_hooks: object) -> None:
    """What modules get in place of `os.register_at_fork`."""


def find_entry(name: str) -> Callable[..., Any]:
    """Import the callable that `package.module:name` means."""
    module, _, attribute = name.partition(":")
    entry = getattr(importlib.import_module(module), attribute)
    if not callable(entry):
        raise TypeError(f"{name} is not callable")
    found: Callable[..., Any] = entry
    return found


def list_standard_paths(folders: list[str]) -> Iterator[str]:
    """The standard library, without what others installed inside it."""
    for folder in filter(os.path.isdir, folders):
        for path in Path(folder).iterdir():
            if path.name not in OTHERS_PACKAGES:
                yield str(path)


def list_package_paths(own: tuple[str, ...]) -> Iterator[str]:
    """Folders of loaded packages; of our own package, only its loaded rooms."""
    for name, module in sorted(sys.modules.items()):
        parts = name.split(".")
        depth = 2 if parts[0] in own else 1
        if len(parts) == depth:
            yield from map(str, getattr(module, "__path__", ()))


def serve(control: socket.socket, entry: child.Entry, jail: Jail) -> None:
    """One child per request, until the trusted process quits or is gone."""
    zygote = os.getpid()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, 2)
        if not message or message == QUIT:
            return
        if not message.startswith((RUN, STAY)):
            continue
        limits: Limits = msgspec.msgpack.decode(message[len(RUN) :], type=Limits)
        try:
            pid = os.fork()
        except OSError as error:
            end = End(failure=f"fork: {error}")
            _close(descriptors)
        else:
            if pid == 0:  # pragma: no cover - in the child
                *payload, result = descriptors
                lock = partial(jail.enter, limits, keep=result, parent=zygote)
                if payload:
                    child.live(entry, payload=payload[0], result=result, lock=lock)
                child.live_on(lambda: entry, channel=result, lock=lock)
            _close(descriptors)
            end = _watch(control, pid)
        control.send(msgspec.msgpack.encode(end))


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _watch(control: socket.socket, pid: int) -> End:
    """Wait for the child; kill it when told to, or when nobody is there to tell."""
    process = open_process(pid)
    poller = select.poll()
    poller.register(process, select.POLLIN)
    poller.register(control, select.POLLIN)
    while process not in dict(poller.poll()):
        message = control.recv(PACKET_BYTES)
        if message in (KILL, b""):
            os.kill(pid, signal.SIGKILL)
            poller.unregister(control)
    os.close(process)
    # What a child without seccomp has started; before the wait, while nobody else can have its id.
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    return count_end(pid)
