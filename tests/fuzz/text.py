"""Mutations of source text: by characters, by tokens, and by nodes of the tree.

Law: what comes out depends on the generator alone; it need not be Python.
"""

from __future__ import annotations

import ast
import copy
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TOKEN = re.compile(r"\s+|\w+|.", re.DOTALL)
MARKS = (
    *("(", ")", "[", "]", "{", "}", "=", "==", ",", ":", ":=", "*", "**", ".", "...", "@", "-"),
    *("\n", "\n    ", "\n        ", "\t", "\\\n", "\r\n", "\r", "#", '"""', "'", "\f", ";", "\0"),
    *("def ", "class ", "return ", "if ", "else: ", "for ", " in ", "with ", "lambda ", "import "),
    *("from ", " as ", "del ", "global ", "nonlocal ", "try:", "except:", " is ", " not ", "None"),
    *("match ", "case _:", "async ", "await ", "yield ", "x", "0", "1", "-1", "128", "2**31"),
    *("1e400", "0x", "f'{x}'", "b'a'", "''", "True", "type T = int", "\u202e", "\ufeff", "é"),
    *("\ud800", "𝄞", "\u2028", "\x0b", "\x1b[0m", "ﬁ", "९", "int", "range(3)", "dtype", "mask"),
)
NODES_MAX = 3_000


@dataclass(slots=True)
class TextMutator:
    """Changes texts; what it puts in comes from `others`."""

    rng: np.random.Generator
    others: Sequence[str]

    def pick(self, values: Sequence[Any]) -> Any:
        """One of the values."""
        return values[int(self.rng.integers(len(values)))]

    def mutate(self, text: str) -> str:
        """A changed text."""
        for _ in range(int(self.rng.integers(1, 4))):
            change = self.pick(
                (self.tokens, self.tokens, self.tokens, self.nodes, self.nodes, self.lines)
            )
            text = change(text)
        return self.characters(text) if self.rng.random() < 0.1 else text

    def tokens(self, text: str) -> str:
        """Remove, double, exchange or replace a token or some."""
        found = TOKEN.findall(text) or [""]
        place, other = self.rng.integers(len(found), size=2).tolist()
        match int(self.rng.integers(6)):
            case 0:
                del found[place : place + int(self.rng.integers(1, 4))]
            case 1:
                found.insert(place, found[other])
            case 2:
                found[place], found[other] = found[other], found[place]
            case 3:
                found[place] = self.pick(MARKS)
            case 4:
                found[place] = self.pick(TOKEN.findall(self.pick(self.others)) or [""])
            case _:
                found.insert(place, self.pick(MARKS))
        return "".join(found)

    def lines(self, text: str) -> str:
        """Remove, double, move or indent lines; put in one of another text."""
        lines = text.split("\n")
        place, other = self.rng.integers(len(lines), size=2).tolist()
        match int(self.rng.integers(5)):
            case 0:
                del lines[place]
            case 1:
                lines.insert(place, lines[other])
            case 2:
                lines[place], lines[other] = lines[other], lines[place]
            case 3:
                lines[place] = self.pick(("    ", " ", "\t")) + lines[place]
            case _:
                lines.insert(place, self.pick(self.pick(self.others).split("\n")))
        return "\n".join(lines)

    def characters(self, text: str) -> str:
        """Cut the text, or put in any characters."""
        place = int(self.rng.integers(len(text) + 1))
        if self.rng.random() < 0.5:
            return text[:place]
        codes = self.rng.integers(0x11000, size=int(self.rng.integers(1, 6))).tolist()
        return text[:place] + "".join(map(chr, codes)) + text[place:]

    def nodes(self, text: str) -> str:
        """Put one node of a tree in the place of another, or leave it out."""
        tree, other = _parse(text), _parse(self.pick(self.others))
        if tree is None or other is None:
            return self.tokens(text)
        places = _places(tree, ast.expr) + _places(tree, ast.stmt) * 2
        if not places:
            return text
        parent, name, index = self.pick(places)
        kind = ast.expr if isinstance(_get(parent, name, index), ast.expr) else ast.stmt
        donors = _places(tree if self.rng.random() < 0.5 else other, kind)
        if donors:
            _put(parent, name, index, copy.deepcopy(_get(*self.pick(donors))))
        try:
            return ast.unparse(ast.fix_missing_locations(tree))
        except (ValueError, AttributeError, TypeError, RecursionError):
            return self.tokens(text)


Where = tuple[ast.AST, str, int | None]


def _parse(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _places(tree: ast.AST, kind: type[ast.AST]) -> list[Where]:
    """Every field of a tree that holds a node of a kind."""
    found: list[Where] = []
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, kind):
                found.append((parent, name, None))
            elif isinstance(value, list):
                found += [(parent, name, i) for i, v in enumerate(value) if isinstance(v, kind)]
        if len(found) > NODES_MAX:
            break
    return found


def _get(parent: ast.AST, name: str, index: int | None) -> ast.AST:
    value = getattr(parent, name)
    return value if index is None else value[index]  # type: ignore[no-any-return]


def _put(parent: ast.AST, name: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[index] = node
