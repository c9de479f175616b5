"""The warmed process of guests: forks long-lived jailed children, each with a channel of its own.

Law: it never reads a channel, so that nothing a guest says reaches it; it forks when asked, kills
when asked, and tells the end of each guest once.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from nki_agent.sandbox import child
from nki_agent.sandbox.jail import Jail
from nki_agent.sandbox.libc import open_process
from nki_agent.sandbox.outcome import Limits
from nki_agent.sandbox.wire import KILL, PACKET_BYTES, QUIT, RUN, Begun, End, Ended

KIB: Final = 1024
"""Unit of `ru_maxrss`."""
PID_BYTES: Final = 8


def encode_kill(pid: int) -> bytes:
    """The packet that ends one guest."""
    return KILL + pid.to_bytes(PID_BYTES, "little")


def count_end(pid: int) -> End:
    """Wait for a child that is gone or going."""
    _, wait_status, usage = os.wait4(pid, 0)
    return End(
        wait_status=wait_status,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        max_rss_bytes=usage.ru_maxrss * KIB,
    )


def serve_guests(
    control: socket.socket, make_entry: Callable[[], child.Entry], jail: Jail
) -> None:  # pragma: no cover - in the zygote
    """Start and end guests until the trusted process quits or is gone."""
    pids: dict[int, int] = {}
    poller = select.poll()
    poller.register(control, select.POLLIN)
    while True:
        for ready, _ in poller.poll():
            if ready in pids:
                poller.unregister(ready)
                os.close(ready)
                ended = _end(pids.pop(ready))
                control.send(msgspec.msgpack.encode(ended))
                continue
            message, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, 1)
            if not message or message == QUIT:
                for pid in pids.values():
                    os.kill(pid, signal.SIGKILL)
                return
            if message.startswith(RUN):
                limits = msgspec.msgpack.decode(message[len(RUN) :], type=Limits)
                begun = _begin(make_entry, jail, limits, channel=descriptors[0])
                if begun.pid:
                    process = open_process(begun.pid)
                    pids[process] = begun.pid
                    poller.register(process, select.POLLIN)
                control.send(msgspec.msgpack.encode(begun))
            elif message.startswith(KILL):
                pid = int.from_bytes(message[len(KILL) :], "little")
                if pid in pids.values():
                    os.kill(pid, signal.SIGKILL)


def _begin(
    make_entry: Callable[[], child.Entry], jail: Jail, limits: Limits, *, channel: int
) -> Begun:  # pragma: no cover - in the zygote
    zygote = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        return Begun(failure=f"fork: {error}")
    finally:
        if os.getpid() == zygote:
            os.close(channel)
    if pid == 0:
        lock = partial(jail.enter, limits, keep=channel, parent=zygote)
        child.live_on(make_entry, channel=channel, lock=lock)
    return Begun(pid=pid)


def _end(pid: int) -> Ended:  # pragma: no cover - in the zygote
    # What a guest without seccomp has started; before the wait, while nobody else has its id.
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    return Ended(pid=pid, end=count_end(pid))
