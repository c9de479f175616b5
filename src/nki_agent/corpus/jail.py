"""The locked process in which foreign task files are run.

Law: it has no network and no file, and is ended at its limits; an answer is bytes that foreign code
may have made.
"""

from __future__ import annotations

from typing import Final, Self

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.corpus.fingerprint import Fingerprint
from nki_agent.sandbox.outcome import GIB, MIB, Limits, OutcomeKind
from nki_agent.sandbox.pool import Sandbox
from nki_agent.sandbox.task_host import list_preload

PRELOAD: Final = ("nki_agent.corpus.warm",)
SECONDS: Final = 600
CPU_SECONDS: Final = 60
"""For one file; a machine that is busy with something else must not change the answer."""
MEMORY_BYTES: Final = 8 * GIB
RESULT_BYTES: Final = 64 * MIB


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A fingerprint, or the reason why there is none."""

    print: Fingerprint | None = None
    reason: str = ""


class Jail:
    """One such process at a time, started when it is first asked."""

    def __init__(self, entry: str, *, allow_unsandboxed: bool) -> None:
        """`entry` is `module:function`, from bytes to bytes. Nothing is started yet."""
        self._entry = entry
        self._allow_unsandboxed = allow_unsandboxed
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        if self._sandbox is not None:
            self._sandbox.close()

    def ask(self, data: bytes) -> bytes | str:
        """The answer; a text says why there is none."""
        if self._sandbox is None:
            self._sandbox = self._start()
        outcome = self._sandbox.run(data)
        match outcome.kind:
            case OutcomeKind.RESULT:
                return outcome.data
            case (
                OutcomeKind.TIMEOUT
                | OutcomeKind.MEMORY
                | OutcomeKind.RAISED
                | OutcomeKind.KILLED
                | OutcomeKind.EXITED
                | OutcomeKind.OVERSIZE
            ):
                return clean(outcome.detail)

    def _start(self) -> Sandbox:
        limits = Limits(
            seconds=SECONDS,
            cpu_seconds=CPU_SECONDS,
            memory_bytes=MEMORY_BYTES,
            result_bytes=RESULT_BYTES,
        )
        return Sandbox(
            self._entry,
            limits=limits,
            preload=(*list_preload(), *PRELOAD),
            allow_unsandboxed=self._allow_unsandboxed,
        )
