"""Keeps the user's keys out of everything that is kept, shown or sent on.

Law: a provider, a proxy or a library may say a key again, in a reply or in an error; it goes no
further than the room that asked. In replies, which hold kernels, only values that a provider reads
are hidden; in errors, whatever the name of its variable calls secret. Not covered: keys of fewer
than `LENGTH_MIN` characters or of few letters alone, which could be any word, and keys in another
form, as in base 64.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

LENGTH_MIN = 8
"""Of what is hidden: a server of one's own often takes `none` or `local` for a key."""
WORD_LENGTH = 16
"""From here on letters alone are no word."""
_READ = re.compile(
    r"(_API_KEY|_API_TOKEN|_AUTH_TOKEN|^HF_TOKEN"
    r"|^AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|BEARER_TOKEN_BEDROCK))$",
    re.IGNORECASE,
)
"""Variables that a provider reads its key from, those of services that a user names included."""
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_ADDRESS = re.compile(r"(_URL|_PROXY)$", re.IGNORECASE)
"""Variables whose addresses may hold a password."""
_Secrets = list[tuple[str, str]]
WORDS = ("message", "body", "code", "response")
"""Where SDKs keep a provider's words in an error, beside its arguments."""


def hide_keys(text: str) -> str:
    """The text without any key that a provider reads."""
    return _hide(text, _find_values(_READ))


def hide_secrets(text: str) -> str:
    """The text without any value of the environment whose name says that it is secret."""
    return _hide(text, _find_values(_SECRET))


def hide_in(value: Any) -> Any:
    """Plain data without keys, those of its records included."""
    return _hide_in(value, _find_values(_READ))


def hide_in_error(error: BaseException) -> None:
    """Take keys out of an error and its causes, which another program may print or keep."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        found.args = hide_in(found.args)
        for name in WORDS:
            words = getattr(found, name, None)
            if isinstance(words, str | dict | list) and (hidden := hide_in(words)) != words:
                setattr(found, name, hidden)
        found = found.__cause__ or found.__context__


def _hide_in(value: Any, secrets: _Secrets) -> Any:
    match value:
        case str():
            return _hide(value, secrets)
        case dict():
            return {_hide_in(k, secrets): _hide_in(item, secrets) for k, item in value.items()}
        case list():
            return [_hide_in(item, secrets) for item in value]
        case tuple():
            return tuple(_hide_in(item, secrets) for item in value)
        case _:
            return value


def _hide(text: str, secrets: _Secrets) -> str:
    for name, value in secrets:
        text = text.replace(value, f"[{name}]")
    return text


def _find_values(names: re.Pattern[str]) -> _Secrets:
    """Secrets by the names of their variables; the longest first, since one may begin another."""

    def find() -> Iterator[tuple[str, str]]:
        for name, value in os.environ.items():
            if names.search(name):
                yield name, value
            elif _ADDRESS.search(name) and (password := _find_password(value)):
                yield name, password

    found = [(name, value) for name, value in find() if _is_key(value)]
    return sorted(found, key=lambda pair: -len(pair[1]))


def _is_key(value: str) -> bool:
    """Whether it can be told from a word: `placeholder` for a key must stay a name in kernels."""
    return len(value) >= (WORD_LENGTH if value.isalpha() else LENGTH_MIN)


def _find_password(address: str) -> str:
    try:
        return urlsplit(address).password or ""
    except ValueError:
        return ""
