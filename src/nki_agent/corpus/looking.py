"""Draws a candidate, filters it and takes its fingerprint: what a build does for each, on any core.

Law: the answer depends on the order alone. An order is a pattern and a number; what is drawn for it
is the same wherever and whenever it is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from nki_agent.base.errors import TaskError
from nki_agent.corpus.candidate import Candidate
from nki_agent.corpus.draw import draw_candidate
from nki_agent.corpus.filters import look_at
from nki_agent.corpus.fingerprint import take_fingerprint
from nki_agent.corpus.grammar import Grammar, read_grammar
from nki_agent.corpus.looked import Looked, Order
from nki_agent.corpus.nodes import GraphError
from nki_agent.corpus.record import Reason, Rejection


def make_looker() -> Callable[[bytes], bytes]:
    """A worker's function; it reads each grammar once."""
    grammars: dict[str, Grammar] = {}
    decoder = msgspec.msgpack.Decoder(Order)

    def answer(data: bytes) -> bytes:
        order = decoder.decode(data)
        if order.grammar not in grammars:
            path = Path(order.grammar) if order.grammar else None
            grammars[order.grammar] = read_grammar(path)
        return msgspec.msgpack.encode(look(grammars[order.grammar], order))

    return answer


def look(grammar: Grammar, order: Order) -> Looked:
    """Draw and look."""
    pattern = grammar.patterns[order.pattern]
    candidate = draw_candidate(grammar, pattern, root=order.root, index=order.index)
    if candidate is None:
        return Looked(pattern=order.pattern, index=order.index)
    return look_further(candidate)


def look_further(candidate: Candidate) -> Looked:
    """Filter a candidate, and take the fingerprint of one that passes."""
    looked = Looked(pattern=candidate.pattern, index=candidate.index)
    found = look_at(candidate)
    if isinstance(found, Rejection):
        return replace(looked, rejection=found)
    try:
        fingerprint = take_fingerprint(candidate.source)
    except (TaskError, GraphError) as error:
        rejection = Rejection(
            id=candidate.id,
            family=candidate.family,
            pattern=candidate.pattern,
            reason=Reason.FAILS,
            detail=f"it has no graph: {str(error).splitlines()[0]}",
        )
        return replace(looked, rejection=rejection)
    return replace(looked, passed=found, print=fingerprint)
