"""The one place through which foreign code is run: a locked process, a fresh one for each question.

Law: what comes back is one of the answers, whatever the code did. The process has no network and no
file, and is ended at the limits; a failure of the machine is a MachineError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.bench.importers.messages import (
    Answer,
    Collect,
    Collected,
    Measure,
    Measured,
    Prove,
    Proved,
    Question,
    Refused,
    TooLarge,
)
from nki_agent.sandbox.outcome import GIB, MIB, Limits, OutcomeKind
from nki_agent.sandbox.pool import Sandbox
from nki_agent.sandbox.task_host import list_preload

ENTRY: Final = "nki_agent.bench.importers.jailed:answer"
SECONDS: Final = 90
"""For one question; a task of the usual size takes one or two."""
MEMORY_BYTES: Final = 4 * GIB
RESULT_BYTES: Final = 64 * MIB
TORCH_SIZE: Final = "nki_agent.task.torch_size"

Wanted = TypeVar("Wanted", Measured, Proved, Collected)


class Foreign:
    """The locked process of one import; started when it is first asked."""

    def __init__(self, *, allow_unsandboxed: bool = False) -> None:
        """Nothing is started yet."""
        self._allow_unsandboxed = allow_unsandboxed
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        if self._sandbox is not None:
            self._sandbox.close()

    def measure(
        self, source: str, *, name: str, limit_elems: int, has_data: bool
    ) -> Measured | TooLarge | Refused:
        """How large the task of this text is."""
        question = Measure(name=name, source=source, limit_elems=limit_elems, has_data=has_data)
        return self._ask(question, Measured)

    def prove(self, source: str, *, name: str) -> Proved | TooLarge | Refused:
        """Whether the task of this text loads, and what the lint says."""
        return self._ask(Prove(name=name, source=source), Proved)

    def collect(
        self, modules: Mapping[str, str], *, package: str, wanted: Sequence[str]
    ) -> Collected | TooLarge | Refused:
        """The tasks that the wanted modules of a package make when they are run."""
        question = Collect(package=package, modules=modules, wanted=tuple(wanted))
        return self._ask(question, Collected)

    def _ask(self, question: Question, wanted: type[Wanted]) -> Wanted | TooLarge | Refused:
        if self._sandbox is None:
            self._sandbox = self._start()
        outcome = self._sandbox.run(msgspec.msgpack.encode(question))
        match outcome.kind:
            case OutcomeKind.RESULT:
                return _read(outcome.data, wanted)
            case OutcomeKind.TIMEOUT | OutcomeKind.MEMORY:
                return TooLarge(reason=outcome.detail)
            case (
                OutcomeKind.RAISED | OutcomeKind.KILLED | OutcomeKind.EXITED | OutcomeKind.OVERSIZE
            ):
                return Refused(reason=outcome.detail)

    def _start(self) -> Sandbox:
        sizes = (TORCH_SIZE,) if find_spec("torch") else ()
        return Sandbox(
            ENTRY,
            limits=Limits(
                seconds=SECONDS,
                cpu_seconds=SECONDS,
                memory_bytes=MEMORY_BYTES,
                result_bytes=RESULT_BYTES,
            ),
            preload=(*list_preload(), *sizes),
            allow_unsandboxed=self._allow_unsandboxed,
        )


def _read(data: bytes, wanted: type[Wanted]) -> Wanted | TooLarge | Refused:
    try:
        found: Answer = msgspec.msgpack.decode(data, type=Answer)
    except msgspec.DecodeError as error:
        return Refused(reason=f"it answered in no form of ours: {clean(error)}")
    match found:
        case TooLarge(reason=reason):
            return TooLarge(reason=_tidy(reason))
        case Refused(reason=reason):
            return Refused(reason=_tidy(reason))
        case Measured() | Proved() | Collected():
            if not isinstance(found, wanted):
                return Refused(reason="it answered another question")
            return found


def _tidy(text: str) -> str:
    return "\n".join(clean(line) for line in text.splitlines()[:4])
