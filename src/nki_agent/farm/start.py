"""The caller's end of the prepared process: a fresh Python with the caller's packages.

Law: it is in a session of its own, so that Ctrl-C reaches only the caller, which then closes it;
if the caller can't, the closed socket ends it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import MachineError
from nki_agent.farm.wire import Boot, FarmLimits
from nki_agent.sandbox.libc import open_memory_file

START_SECONDS: Final = 60.0
"""From the wish for a worker to the worker; importing PyTorch from a cold disk takes some."""
STOP_SECONDS: Final = 2.0
LOG_BYTES: Final = 2000
ONE_THREAD: Final = {
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""A fork keeps one thread only, and workers are the parallelism."""
BOOT_CODE: Final = (
    "import sys; sys.path.extend(p for p in sys.argv[2:] if p not in sys.path); "
    "from nki_agent.farm.prepared import main; main(sys.argv[1])"
)


class PreparedProcess:
    """The process, started and not waited for."""

    def __init__(self, limits: FarmLimits) -> None:
        """Start it; OSError where the machine can't."""
        if not sys.executable:
            raise MachineError("the farm needs a Python program, and `sys.executable` names none")
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = open_memory_file()
        try:
            with theirs:
                self._process = _start(theirs, limits, log=self._log)
        except BaseException:
            self.control.close()
            os.close(self._log)
            raise
        self.control.setblocking(False)  # noqa: FBT003 - the standard library's signature

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, told or not."""
        return self._process.poll() is not None

    def explain(self) -> str:
        """How it ended and what it said last, after it has closed its socket."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        code = self._process.poll()
        if code == -signal.SIGKILL:
            return "the prepared process was killed: perhaps this machine ran out of memory"
        size = os.fstat(self._log).st_size
        said = os.pread(self._log, LOG_BYTES, max(0, size - LOG_BYTES)).decode(errors="replace")
        return f"the prepared process ended with status {code}: {clean(said)}"

    def stop(self) -> None:
        """End it and its workers; returns when it is gone."""
        if self._log < 0:
            return
        self.control.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._log)
        self._log = -1


def _start(control: socket.socket, limits: FarmLimits, *, log: int) -> subprocess.Popen[bytes]:
    here = str(Path(__file__).resolve().parents[2])
    paths = tuple(dict.fromkeys([here, *(str(Path(p).absolute()) for p in sys.path if p)]))
    boot = msgspec.json.encode(Boot(limits=limits)).decode()
    return subprocess.Popen(
        [sys.executable, "-P", "-c", BOOT_CODE, boot, *paths],
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=log,
        env=os.environ | ONE_THREAD,
        start_new_session=True,
    )
