"""Whether a task, or a text of a trajectory, holds a task of a benchmark.

Law: a task is a leak if its text, its graph, its graph without a number that it is multiplied by,
or most pieces of its code are those of a benchmark's task. Sizes and dtypes excuse nothing. A text
is a leak if it names such a task, quotes its reference, or holds code that is a leak.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nki_agent.corpus.canonical import Graph
from nki_agent.corpus.fingerprint import Fingerprint, read_text
from nki_agent.corpus.likeness import Likeness, count_pieces

NEAR = 0.8
"""Share of pieces from which code is a benchmark's; two tasks of the corpus may share more."""
PARTS_NEAR = 0.95
"""Share of a graph's parts from which two graphs are one with a step changed.

A layer norm has 32 parts, and one step more adds three of its own: 0.91 is another task.
"""
PARTS_MIN = 20
"""Graphs of fewer parts are compared whole: one step is too much of them."""
QUOTE_MIN = 60
"""Characters without blanks; a shorter reference is said by chance."""
_BLOCK = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)
_BLANKS = re.compile(r"\s+")
_WORD = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A task of a benchmark."""

    id: str
    source: str
    print: Fingerprint
    names_itself: bool = True
    """Whether its id says what it is; `19-relu` does, `task-3` does not."""


@dataclass(slots=True)
class Leaks:
    """What is compared with everything that goes into the corpus."""

    known: tuple[Known, ...]
    _exact: dict[str, str] = field(init=False)
    _graphs: dict[str, str] = field(init=False)
    _bare: dict[str, str] = field(init=False)
    _near: Likeness = field(init=False)
    _ids: frozenset[str] = field(init=False)
    _quotes: tuple[tuple[str, str], ...] = field(init=False)
    _parts: Likeness = field(init=False)

    def __post_init__(self) -> None:
        """Index what is known."""
        graphs = [(known.id, known.print.graph) for known in self.known if known.print.graph]
        self._exact = {known.print.exact: known.id for known in reversed(self.known)}
        self._graphs = {graph.hash: name for name, graph in reversed(graphs)}
        self._bare = {graph.bare: name for name, graph in reversed(graphs)}
        self._near = Likeness(NEAR, counts=count_pieces(k.print.pieces for k in self.known))
        for known in self.known:
            self._near.add(known.id, known.print.pieces)
        large = [(name, _parts_of(g)) for name, g in graphs if len(g.features) >= PARTS_MIN]
        self._parts = Likeness(PARTS_NEAR, counts=count_pieces(parts for _, parts in large))
        for name, parts in large:
            self._parts.add(name, parts)
        self._ids = frozenset(known.id for known in self.known if known.names_itself)
        quotes = ((known.id, _quote(known.source)) for known in self.known)
        self._quotes = tuple((name, quote) for name, quote in quotes if len(quote) >= QUOTE_MIN)

    def find(self, found: Fingerprint) -> str | None:
        """How a task is one of a benchmark, in one line; None where it is not."""
        if (name := self._exact.get(found.exact)) is not None:
            return f"the text of {name}"
        if (graph := found.graph) is not None:
            if (name := self._graphs.get(graph.hash)) is not None:
                return f"the graph of {name}"
            if (name := self._bare.get(graph.bare)) is not None:
                return f"the graph of {name} but for a number that it is multiplied by"
            if len(graph.features) >= PARTS_MIN:
                parts = self._parts.find(_parts_of(graph))
                if parts is not None:
                    return f"{parts[1]:.2f} of the parts of its graph are those of {parts[0]}"
        if (near := self._near.find(found.pieces)) is not None:
            return f"{near[1]:.2f} of the pieces of its code are those of {near[0]}"
        return None

    def find_in_text(self, text: str) -> Iterator[str]:
        """Each way in which a text gives a task away."""
        for name in sorted(self._ids.intersection(_WORD.findall(text))):
            yield f"it names {name}"
        squeezed = _BLANKS.sub("", text)
        for name, quote in self._quotes:
            if quote in squeezed:
                yield f"it quotes the reference of {name}"
        for block in _BLOCK.findall(text):
            if (found := self._find_in_code(block)) is not None:
                yield found

    def _find_in_code(self, code: str) -> str | None:
        try:
            exact, pieces = read_text(code)
        except (SyntaxError, ValueError, RecursionError):
            return None
        return self.find(Fingerprint(exact=exact, graph=None, pieces=pieces))


def _parts_of(graph: Graph) -> tuple[int, ...]:
    return tuple(int(feature, 16) for feature in graph.features)


def _quote(source: str) -> str:
    """The body of the reference without blanks; comments and declarations stay out."""
    lines: list[str] = []
    is_inside = False
    for line in source.splitlines():
        is_inside = is_inside or bool(re.match(r"\s+def (forward|__call__)|def reference", line))
        if is_inside and not line.strip().startswith("#"):
            lines.append(line)
    body = "\n".join(lines).partition(":\n")[2]
    return _BLANKS.sub("", body)


def list_leaks(leaks: Leaks, prints: Iterable[tuple[str, Fingerprint]]) -> list[str]:
    """A line for each task that is a leak; nothing is the proof that there is none."""
    found = ((name, leaks.find(fingerprint)) for name, fingerprint in prints)
    return [f"{name}: {detail}" for name, detail in found if detail is not None]
