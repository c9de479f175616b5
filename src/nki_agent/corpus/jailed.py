"""The ends that lie in the locked process: foreign references are followed and filtered here.

Law: they are given a text and give back a small record; they open no file and keep nothing.
"""

from __future__ import annotations

import msgspec

from nki_agent.base.errors import NkiAgentError
from nki_agent.corpus.candidate import Candidate
from nki_agent.corpus.fingerprint import take_fingerprint
from nki_agent.corpus.jail import Answer
from nki_agent.corpus.looking import look_further


def answer(payload: bytes) -> bytes:
    """Take the fingerprint of a text."""
    source = payload.decode(errors="surrogatepass")
    try:
        found = Answer(print=take_fingerprint(source))
    except (NkiAgentError, SyntaxError, RecursionError) as error:
        found = Answer(reason=str(error) or type(error).__name__)
    return msgspec.msgpack.encode(found)


def look(payload: bytes) -> bytes:
    """Filter a candidate."""
    candidate = msgspec.msgpack.decode(payload, type=Candidate)
    return msgspec.msgpack.encode(look_further(candidate))
