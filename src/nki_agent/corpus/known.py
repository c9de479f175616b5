"""The tasks that must not be in the corpus: our own 250, and folders of others'.

Law: a folder's code is foreign. It is read by the importers and run in a locked process; a file of
it that cannot be followed is named and compared by its text, never passed over in silence.
"""

from __future__ import annotations

import functools
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
from nki_agent.corpus.jail import Answer, Jail
from nki_agent.corpus.leaks import Known

ENTRY: Final = "nki_agent.corpus.jailed:answer"
NAMED_MIN: Final = 2
"""Dashes from which an id is no common word."""

Tell = Callable[[str], None]


@functools.cache
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
    with Jail(ENTRY, allow_unsandboxed=allow_unsandboxed) as jail:
        found = tuple(_read(path, jail, tell, allow_unsandboxed=allow_unsandboxed))
    if not found:
        raise UsageError(f"`{path}` holds no task", hint="name a folder of task files")
    return found


def _read(path: Path, jail: Jail, tell: Tell, *, allow_unsandboxed: bool) -> Iterator[Known]:
    for name, source in _list_sources(path, tell, allow_unsandboxed=allow_unsandboxed):
        answer = follow(jail, source)
        if isinstance(answer, str):
            tell(f"{name}: only its text is compared: {answer}")
            answer = _read_alone(source)
        is_named = name.count("-") >= NAMED_MIN
        yield Known(id=name, source=source, print=answer, names_itself=is_named)


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


def follow(jail: Jail, source: str) -> Fingerprint | str:
    """The fingerprint of a foreign text, or why there is none; the jail is one of `ENTRY`."""
    data = jail.ask(source.encode(errors="surrogatepass"))
    if isinstance(data, str):
        return data
    try:
        answer: Answer = msgspec.msgpack.decode(data, type=Answer)
    except msgspec.DecodeError as error:
        return f"it answered in no form of ours: {clean(error)}"
    if answer.print is not None:
        return answer.print
    return clean(answer.reason.splitlines()[0] if answer.reason else "no reason")
