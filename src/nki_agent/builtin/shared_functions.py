"""Functions of stages that differ in nothing but names are written once.

Law: two texts are one function only if renaming identifiers one to one makes them equal, and their
parameters follow each other in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class SharedFunctions:
    """The functions that a kernel has so far."""

    _known: dict[str, str] = field(default_factory=dict)

    def find(
        self, lines: Sequence[str], parameters: Sequence[str], *, index: int, name: str
    ) -> str | None:
        """The name of a function that does the same; None makes this one known."""
        plain = _with_plain_names(lines, parameters, prefix=f"stage_{index + 1}_")
        if plain is None:
            return None
        found = self._known.get(plain)
        if found is None:
            self._known[plain] = name
        return found


def _with_plain_names(
    lines: Sequence[str], parameters: Sequence[str], *, prefix: str
) -> str | None:
    """The text with numbers for the names of parameters; None where two names become one."""
    # Names of tiles begin with the tensor's.
    longest = sorted(range(len(parameters)), key=lambda i: -len(parameters[i]))
    renamed: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        word = match[0]
        if word not in renamed:
            plain = word.removeprefix(prefix)
            for number in longest:
                name = parameters[number]
                if word == name or word.startswith(f"{name}_"):
                    plain = f"<{number}>{word.removeprefix(name)}"
                    break
            renamed[word] = plain if plain == word or plain[0] == "<" else f"<>{plain}"
        return renamed[word]

    text = _IDENTIFIER.sub(rename, "\n".join(lines))
    return text if len(set(renamed.values())) == len(renamed) else None
