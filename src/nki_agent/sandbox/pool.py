"""Runs a trusted callable on untrusted source, in a locked process of its own per run.

Law: what comes back is bytes, which the caller decodes with types and checks. The callable is named
by a string and imported once, in a warmed process that is a fresh Python and not a fork of this
one: it holds no data and no key (docs/decisions/0003-sandbox.md).
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from nki_agent.base.errors import MachineError
from nki_agent.sandbox.locate import OWN_PACKAGE, find_import_paths
from nki_agent.sandbox.outcome import (
    ENOUGH,
    Layer,
    LayerState,
    Limits,
    Outcome,
    OutcomeKind,
    Status,
)
from nki_agent.sandbox.session import Session
from nki_agent.sandbox.warm import LostError, WarmProcess
from nki_agent.sandbox.wire import Boot

__all__ = [
    "Layer",
    "LayerState",
    "Limits",
    "Outcome",
    "OutcomeKind",
    "Sandbox",
    "Status",
    "require_enough",
    "status",
]

Answer = TypeVar("Answer")

DEFAULT_LIMITS: Final = Limits()
ECHO: Final = "nki_agent.sandbox.child:echo"
ATTEMPTS: Final = 2
"""A warmed process that is lost (out of memory, killed by hand) is replaced once per run."""


class Sandbox:
    """One warmed process and its children; one run at a time, from one thread.

    Args:
        entry: The callable, `package.module:name`, taking and giving bytes.
        limits: What a run may use when `run` is not told.
        preload: Modules imported beforehand. A kernel can import these, the standard library and
            the rest of their packages; as root, where Python is in a private folder, only these.
        import_paths: Folders to find `entry` and `preload` in, after the installed packages. A
            kernel may read none of it but packages that are loaded from there.
        warm_up: A callable of ours that is called once before the first child is forked.
        allow_unsandboxed: Run although this machine offers none of uid, Landlock and seccomp.
    """

    def __init__(
        self,
        entry: str,
        *,
        limits: Limits = DEFAULT_LIMITS,
        preload: Sequence[str] = (),
        import_paths: Sequence[str] = (),
        warm_up: str = "",
        allow_unsandboxed: bool = False,
    ) -> None:
        """Start the warmed process; MachineError when it can't be, or must not be used."""
        if sys.platform != "linux":
            raise MachineError(f"untrusted source is run on Linux only, and this is {sys.platform}")
        modules = (entry.partition(":")[0], *preload)
        self._limits = limits
        self._allow_unsandboxed = allow_unsandboxed
        self._boot = Boot(
            entry=entry,
            preload=tuple(preload),
            import_paths=find_import_paths(modules, extra=import_paths),
            own_packages=(OWN_PACKAGE,),
            warm_up=warm_up,
        )
        self._warm: WarmProcess | None = None
        self._finalizer: weakref.finalize[..., Sandbox] | None = None
        self.status = self._start().status
        """The layers that every run of this sandbox gets."""

    def __enter__(self) -> Self:
        """Itself, ready."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the warmed process."""
        self.close()

    def run(self, payload: bytes, *, limits: Limits | None = None) -> Outcome:
        """Call the entry on the payload in a fresh child; how that ended is the Outcome.

        Raises:
            MachineError: The run could not begin, or the warmed process was lost twice.
        """
        return self._attempt(lambda warm: warm.run(payload, limits or self._limits))

    def open(self, *, limits: Limits | None = None) -> Session:
        """Runs of one kernel, in one child while all goes well; no other run until it is closed."""
        return Session(self._attempt, limits or self._limits)

    def _attempt(self, work: Callable[[WarmProcess], Answer]) -> Answer:
        """Do something with the warmed process, and once more if that is lost meanwhile."""
        for _ in range(ATTEMPTS):
            warm = self._warm
            if warm is None or warm.owner_pid != os.getpid():
                warm = self._start()
            try:
                return work(warm)
            except LostError:
                self.close()
            except BaseException:
                # Interrupted in the middle: what the process would say next is no answer to us.
                self.close()
                raise
        raise MachineError(
            f"the sandbox process was lost {ATTEMPTS} times in one run: "
            "this machine may be short of memory"
        )

    @property
    def pid(self) -> int | None:
        """The warmed process, for who watches its memory; None when there is none."""
        return self._warm.pid if self._warm else None

    def close(self) -> None:
        """End the warmed process; a later `run` starts another."""
        self._warm = None
        if self._finalizer is not None:
            self._finalizer()
            self._finalizer = None

    def _start(self) -> WarmProcess:
        self.close()
        warm = WarmProcess(self._boot)
        self._finalizer = weakref.finalize(self, warm.stop)
        try:
            require_enough(warm.status, allow_unsandboxed=self._allow_unsandboxed)
        except MachineError:
            self.close()
            raise
        self._warm = warm
        self.status = warm.status
        return warm


def require_enough(status: Status, *, allow_unsandboxed: bool) -> None:
    """Raise MachineError where nothing keeps a kernel from the user's files."""
    if status.is_enough or allow_unsandboxed:
        return
    names = ", ".join(sorted(ENOUGH))
    raise MachineError(
        f"untrusted source is refused: none of {names} works on this machine\n{status}\n"
        "  hint: use Linux 5.13 or later with Landlock on, or a container that permits seccomp; "
        "only for source that you trust, allow it with `allow_unsandboxed`"
    )


def status() -> Status:
    """Which layers this machine offers, and why not the others; starts and ends a process."""
    with Sandbox(ECHO, allow_unsandboxed=True) as sandbox:
        return sandbox.status
