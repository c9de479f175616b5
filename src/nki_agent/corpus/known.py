"""The tasks that must not be in the corpus: our own 250, and folders of others'.

Law: a folder's code is foreign. It is read by the importers and run in a locked process; a file of
it that cannot be followed is named and compared by its text, never passed over in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.bench.importers.draft import Draft
from nki_agent.bench.importers.foreign import Foreign
from nki_agent.bench.importers.formats import AUTO, find_format, read_drafts
from nki_agent.bench.importers.listing import read_listing
from nki_agent.bench.suite import SUITE_FILE, builtin_suite, read_suite
from nki_agent.corpus.fingerprint import Fingerprint, read_text, take_fingerprint
from nki_agent.corpus.jailed import Answer, Failed
from nki_agent.corpus.leaks import Known
from nki_agent.sandbox.outcome import GIB, MIB, Limits, OutcomeKind
from nki_agent.sandbox.pool import Sandbox
from nki_agent.sandbox.task_host import list_preload

ENTRY: Final = "nki_agent.corpus.jailed:answer"
TRACE: Final = "nki_agent.corpus.trace"
SECONDS: Final = 60
MEMORY_BYTES: Final = 8 * GIB
RESULT_BYTES: Final = 64 * MIB
NAMED_MIN: Final = 2
"""Dashes from which an id is no common word."""

Tell = Callable[[str], None]


def read_own() -> tuple[Known, ...]:
    """Our own benchmark, which is trusted."""
    found = []
    for task in builtin_suite().tasks:
        source = task.path.read_text(encoding="utf-8")
        found.append(Known(id=task.id, source=source, print=take_fingerprint(source)))
    return tuple(found)


def read_folder(path: Path, *, tell: Tell, allow_unsandboxed: bool = False) -> tuple[Known, ...]:
    """Every task of a folder, in any form that can be imported.

    Raises:
        UsageError: there is no such folder, or no task in it.
    """
    with Jail(allow_unsandboxed=allow_unsandboxed) as jail:
        found = tuple(_read(path, jail, tell, allow_unsandboxed=allow_unsandboxed))
    if not found:
        raise UsageError(f"`{path}` holds no task", hint="name a folder of task files")
    return found


def _read(path: Path, jail: Jail, tell: Tell, *, allow_unsandboxed: bool) -> Iterator[Known]:
    for name, source in _list_sources(path, tell, allow_unsandboxed=allow_unsandboxed):
        answer = jail.take(source)
        if isinstance(answer, Fingerprint):
            fingerprint = answer
        else:
            tell(f"{name}: only its text is compared: {answer.reason}")
            fingerprint = _read_alone(source)
        is_named = name.count("-") >= NAMED_MIN
        yield Known(id=name, source=source, print=fingerprint, names_itself=is_named)


def _list_sources(path: Path, tell: Tell, *, allow_unsandboxed: bool) -> Iterator[tuple[str, str]]:
    if (path / SUITE_FILE).is_file():
        for task in read_suite(path).tasks:
            yield task.id, task.path.read_text(encoding="utf-8")
        return
    listing = read_listing(path)
    if any("SHAPES" in text and "INPUTS" in text for text in listing.named(".py").values()):
        yield from ((Path(name).stem, text) for name, text in listing.named(".py").items())
        return
    with Foreign(allow_unsandboxed=allow_unsandboxed) as foreign:
        drafts: list[Draft] = read_drafts(listing, find_format(AUTO, listing), foreign)
    for draft in drafts:
        if draft.templates:
            template = draft.templates[0]
            yield draft.id, template.render(template.sizes())
        else:
            tell(f"{draft.id}: it is not compared: {clean(draft.problem)}")


def _read_alone(source: str) -> Fingerprint:
    try:
        exact, pieces = read_text(source)
    except (SyntaxError, ValueError, RecursionError):
        exact, pieces = "", ()
    return Fingerprint(exact=exact, graph=None, pieces=pieces)


class Jail:
    """The locked process in which foreign task files are followed; started when first asked."""

    def __init__(self, *, allow_unsandboxed: bool) -> None:
        """Nothing is started yet."""
        self._allow_unsandboxed = allow_unsandboxed
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> Jail:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        if self._sandbox is not None:
            self._sandbox.close()

    def take(self, source: str) -> Fingerprint | Failed:
        """The fingerprint of a task file, or why there is none."""
        if self._sandbox is None:
            self._sandbox = self._start()
        outcome = self._sandbox.run(source.encode(errors="surrogatepass"))
        match outcome.kind:
            case OutcomeKind.RESULT:
                return _decode(outcome.data)
            case (
                OutcomeKind.TIMEOUT
                | OutcomeKind.MEMORY
                | OutcomeKind.RAISED
                | OutcomeKind.KILLED
                | OutcomeKind.EXITED
                | OutcomeKind.OVERSIZE
            ):
                return Failed(reason=clean(outcome.detail))

    def _start(self) -> Sandbox:
        limits = Limits(
            seconds=SECONDS,
            cpu_seconds=SECONDS,
            memory_bytes=MEMORY_BYTES,
            result_bytes=RESULT_BYTES,
        )
        return Sandbox(
            ENTRY,
            limits=limits,
            preload=(*list_preload(), TRACE),
            allow_unsandboxed=self._allow_unsandboxed,
        )


def _decode(data: bytes) -> Fingerprint | Failed:
    try:
        answer: Answer = msgspec.msgpack.decode(data, type=Answer)
    except msgspec.DecodeError as error:
        return Failed(reason=f"it answered in no form of ours: {clean(error)}")
    if answer.print is not None:
        return answer.print
    return Failed(reason=clean(answer.reason.splitlines()[0] if answer.reason else "no reason"))
