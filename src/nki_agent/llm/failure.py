"""What went wrong between us and a provider, and whether asking again can help.

Law: asking again costs no more than it must. What was never sent, or was turned away, is asked
again after a wait; a reply that was lost on its way may have been paid, so it is asked for once
more only; what the provider will always refuse is not asked again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.llm.keys import hide_secrets

MESSAGE_LENGTH_MAX = 500
NO_ACCESS = {
    401: "it does not accept the key",
    402: "the account has no credit",
    403: "the key may not use this model",
    404: "it does not know this model or address",
}
REFUSED_REQUESTS = frozenset({400, 405, 413, 415, 422})
UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "EndpointConnectionError")
"""Names of errors that come before anything is sent, in every HTTP library below Inspect."""
LOST = ("ReadError", "ReadTimeout", "RemoteProtocolError", "WriteError", "TimeoutError")
UNREADABLE = "its answer cannot be read: {reason}"
MISREAD = (LookupError, AttributeError, TypeError, RecursionError)
"""What the libraries below us raise over an answer that lacks what every answer has."""
MISREAD_NAMES = frozenset({"ValidationError", "JSONDecodeError"})
NO_CREDIT = "insufficient_quota"
AWS_NO_ACCESS = (
    "AccessDenied",
    "UnrecognizedClient",
    "InvalidSignature",
    "ExpiredToken",
    "NoCredentials",
    "ResourceNotFound",
)


class Kind(StrEnum):
    """What a failure means for the next request."""

    ACCESS = "access"
    """Every request will fail alike: a wrong key, no credit, no such model."""
    REQUEST = "request"
    """This request will always fail: too long, not understood."""
    BUSY = "busy"
    """Turned away for now: a rate limit, an overloaded server."""
    UNSENT = "unsent"
    """Nobody was reached."""
    LOST = "lost"
    """A reply was lost on its way; it may have been paid."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One request that brought no reply."""

    kind: Kind
    message: str
    retry_after_s: float | None = None


def classify(error: BaseException, api: Any) -> Failure:
    """What an error of Inspect's model means; `api` is the provider behind it."""
    chain = list(_unwrap(error))
    message = describe(chain)
    status = next((s for e in chain if isinstance(s := getattr(e, "status_code", None), int)), None)
    text = " ".join(_codes(chain))
    if status in NO_ACCESS or NO_CREDIT in text or any(word in text for word in AWS_NO_ACCESS):
        reason = NO_ACCESS.get(status or 0, "it does not let us in")
        # The provider's own words may repeat the key.
        return Failure(kind=Kind.ACCESS, message=NO_ACCESS[402] if NO_CREDIT in text else reason)
    if status in REFUSED_REQUESTS:
        return Failure(kind=Kind.REQUEST, message=message)
    names = {cls.__name__ for e in chain for cls in type(e).__mro__}
    if status is None and (isinstance(chain[-1], MISREAD) or names & MISREAD_NAMES):
        return Failure(kind=Kind.LOST, message=UNREADABLE.format(reason=message))
    if status is None and names & set(UNSENT):
        return Failure(kind=Kind.UNSENT, message=message)
    decision = next((d for e in chain if (d := api.should_retry(e))), None)
    if status is None and (names & set(LOST) or decision is not None):
        return Failure(kind=Kind.LOST, message=message)
    if decision is None:
        return Failure(kind=Kind.REQUEST, message=message)
    return Failure(
        kind=Kind.BUSY, message=message, retry_after_s=getattr(decision, "retry_after", None)
    )


def describe(chain: list[BaseException]) -> str:
    """The innermost words, in one line, without anybody's keys."""
    first, last = chain[0], chain[-1]
    words = getattr(first, "provider_message", None) or str(first)
    words = words.strip() or f"{type(first).__name__} without words"
    if last is not first and str(last) and str(last) not in words:
        words = f"{words} ({last})"
    line = " ".join(clean(hide_secrets(words)).split())
    return line if len(line) <= MESSAGE_LENGTH_MAX else line[: MESSAGE_LENGTH_MAX - 1] + "…"


def _unwrap(error: BaseException) -> list[BaseException]:
    """From the error that a request met to its causes; Tenacity's own wrapper is left out."""
    chain: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in chain:
        chain.append(found)
        found = found.__cause__ or found.__context__
    bare = [e for e in chain if type(e).__name__ != "RetryError"]
    return bare or chain


def _codes(chain: list[BaseException]) -> list[str]:
    """Codes that providers put into errors."""
    found = []
    for error in chain:
        found.append(type(error).__name__)
        if isinstance(code := getattr(error, "code", None), str):
            found.append(code)
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            found.append(str(response.get("Error", {}).get("Code", "")))
    return found
