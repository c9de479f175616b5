"""What is asked of a worker of a build, and what it answers; without PyTorch.

Law: an order is a pattern and a number; an answer is stored as it came, and found by the same two.
"""

from __future__ import annotations

import msgspec

from nki_agent.corpus.candidate import Passed
from nki_agent.corpus.fingerprint import Fingerprint
from nki_agent.corpus.record import Rejection

SCHEMA = 1
ENTRY = "nki_agent.corpus.looking:make_looker"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Which candidate of a grammar."""

    grammar: str
    """A path; empty for ours."""
    root: int
    pattern: str
    index: int


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one order."""

    schema: int = SCHEMA
    pattern: str
    index: int
    passed: Passed | None = None
    print: Fingerprint | None = None
    rejection: Rejection | None = None
    """Neither this nor `passed` where nothing fits together in the pattern."""
