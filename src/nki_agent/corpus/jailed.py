"""The end of `known` that lies in the locked process: foreign references are followed here.

Law: it is given a text and gives back a small record; it opens no file and keeps nothing.
"""

from __future__ import annotations

import msgspec

from nki_agent.base.errors import NkiAgentError
from nki_agent.corpus.fingerprint import Fingerprint, take_fingerprint


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """There is no graph."""

    reason: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A fingerprint, or the reason why there is none."""

    print: Fingerprint | None = None
    reason: str = ""


def answer(payload: bytes) -> bytes:
    """Take the fingerprint of a text."""
    source = payload.decode(errors="surrogatepass")
    try:
        found = Answer(print=take_fingerprint(source))
    except (NkiAgentError, SyntaxError, RecursionError) as error:
        found = Answer(reason=str(error) or type(error).__name__)
    return msgspec.msgpack.encode(found)
