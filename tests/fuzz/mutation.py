"""Mutations of stored records as trees of lists, dicts and values, and of bytes.

Law: what comes out depends on the generator alone. Nothing here knows what the trees mean.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

Kind = tuple[Any, ...]
Tree = Any
"""What msgspec reads without a type."""

NUMBERS = (
    *(0, 1, 2, -1, 3, 4, 7, 64, 127, 128, 129, 512, 2047, 2048, 2049, 2**14, 2**15, 2**17),
    *(2**24, 2**31 - 1, 2**31, -(2**31), 2**32, 2**36, 2**40 - 1, 2**40, -(2**40)),
    *(2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, -0.0, 1e30, -1e300, 1e-40),
    *(float("nan"), float("inf"), float("-inf")),
)
TEXTS = ("", "x", "a" * 100_000, "\x1b[31m", "<script>", "\u202e", "\ud7ff", "\x00", "nan", "dst")
OTHERS: tuple[Tree, ...] = (None, True, False, [], {}, b"", b"\x00" * 64, [[]], [0], [[0, 0]])
DEEP = 3_000
REPEATS = (2, 3, 100, 5_000)
STOP = 0.12
"""Chance to stop at a list on the way down to a value."""


@dataclass(frozen=True, slots=True)
class Place:
    """One element of a list or dict."""

    parent: Any
    key: Any
    path: tuple[Any, ...] = ()
    """Keys from the root to it."""

    @property
    def value(self) -> Tree:
        """What is there."""
        return self.parent[self.key]

    def put(self, value: Tree) -> None:
        """Put something else there."""
        self.parent[self.key] = value


@dataclass(slots=True)
class Mutator:
    """Changes trees."""

    rng: np.random.Generator
    values: Mapping[Kind, Sequence[Tree]] = field(default_factory=dict)
    """What stands at places of one kind elsewhere."""
    done: list[str] = field(default_factory=list)

    def pick(self, values: Sequence[Any]) -> Any:
        """One of the values."""
        return values[int(self.rng.integers(len(values)))]

    def mutate(self, tree: Tree, *, times: int) -> Tree:
        """A changed copy."""
        root = [copy.deepcopy(tree)]
        self.done = []
        for _ in range(times):
            place = self.find_place(root)
            name, change = self.pick(_CHANGES)
            with contextlib.suppress(RecursionError):
                self.done.append(f"{name} at {place.path}: {str(place.value)[:60]}")
                change(self, root, place)
        return root[0]

    def find_place(self, root: list[Tree]) -> Place:
        """Go down by chance, so that short branches are reached as often as long ones."""
        place = Place(root, 0)
        while True:
            value = place.value
            if not isinstance(value, list | dict) or not value:
                return place
            if place.parent is not root and self.rng.random() < STOP:
                return place
            keys = list(value) if isinstance(value, dict) else range(len(value))
            key = self.pick(keys)
            place = Place(value, key, (*place.path, key))


def _replace(mutator: Mutator, root: list[Tree], place: Place) -> None:
    """A value by another of its kind, so that what is read goes on."""
    match place.value:
        case bool():
            place.put(not place.value)
        case int() | float():
            place.put(mutator.pick(NUMBERS))
        case str():
            place.put(mutator.pick(TEXTS))
        case bytes():
            place.put(change_bytes(mutator.rng, place.value))
        case _:
            place.put(copy.deepcopy(mutator.pick(OTHERS)))


def _nudge(mutator: Mutator, root: list[Tree], place: Place) -> None:
    value = place.value
    if isinstance(value, int | float) and not isinstance(value, bool):
        changed = mutator.pick((value + 1, value - 1, value * 2, -value, value // 2, value + 4))
        is_stored = isinstance(changed, float) or -(2**63) <= changed < 2**64
        place.put(changed if is_stored else 0)
    else:
        _swap(mutator, root, place)


def _swap(mutator: Mutator, root: list[Tree], place: Place) -> None:
    """Something from elsewhere in the same tree."""
    for _ in range(20):
        other = mutator.find_place(root).value
        if type(other) is type(place.value) and other != place.value:
            place.put(copy.deepcopy(other))
            return


def _transplant(mutator: Mutator, root: list[Tree], place: Place) -> None:
    """What stands in the same field of another record."""
    values = mutator.values.get(kind_of(place.path), ())
    if values:
        place.put(copy.deepcopy(mutator.pick(values)))


def _confuse(mutator: Mutator, root: list[Tree], place: Place) -> None:
    """A value of any kind."""
    place.put(copy.deepcopy(mutator.pick((*OTHERS, *NUMBERS, *TEXTS))))


def _remove(mutator: Mutator, root: list[Tree], place: Place) -> None:
    if place.parent is not root:
        del place.parent[place.key]


def _repeat(mutator: Mutator, root: list[Tree], place: Place) -> None:
    if isinstance(place.value, list):
        place.put(place.value * mutator.pick(REPEATS))
    elif isinstance(place.parent, list) and place.parent is not root:
        place.parent.insert(place.key, copy.deepcopy(place.value))


def _shuffle(mutator: Mutator, root: list[Tree], place: Place) -> None:
    siblings = place.parent if isinstance(place.parent, list) else place.value
    if isinstance(siblings, list) and len(siblings) > 1:
        one, other = mutator.rng.integers(len(siblings), size=2).tolist()
        siblings[one], siblings[other] = siblings[other], siblings[one]


def _nest(mutator: Mutator, root: list[Tree], place: Place) -> None:
    """The value in lists in lists, or a part of the tree inside itself."""
    value = place.value
    if mutator.rng.random() < 0.5 and isinstance(value, list) and value:
        copied = copy.deepcopy(value)
        value[mutator.pick(range(len(value)))] = copied
        return
    for _ in range(mutator.pick((1, 2, DEEP))):
        value = [value]
    place.put(value)


Change = Callable[[Mutator, list[Tree], Place], None]
_NAMED: tuple[tuple[int, str, Change], ...] = (
    (10, "transplant", _transplant),
    (6, "replace", _replace),
    (8, "nudge", _nudge),
    (4, "swap", _swap),
    (1, "confuse", _confuse),
    (1, "remove", _remove),
    (2, "repeat", _repeat),
    (3, "shuffle", _shuffle),
    (1, "nest", _nest),
)
_CHANGES = [(name, change) for weight, name, change in _NAMED for _ in range(weight)]


def change_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Flip bits, cut, insert or double some bytes."""
    if not data:
        return b"\xff"
    changed = bytearray(data)
    start = int(rng.integers(len(changed)))
    length = int(rng.integers(1, 9))
    match int(rng.integers(5)):
        case 0:
            del changed[start:]
        case 1:
            changed[start:start] = rng.bytes(length)
        case 2:
            del changed[start : start + length]
        case 3:
            changed[start : start + length] = rng.bytes(length)
        case _:
            for place in rng.integers(len(changed), size=length).tolist():
                changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def kind_of(path: Sequence[Any]) -> Kind:
    """The field that a path leads to: lists of records and fields of a record alternate."""
    if not path:
        return ()
    skipped = 2 if path[0] == "bodies" else 1
    fields = path[1 + skipped :: 2]
    return (path[0], len(path), *fields)


def collect_values(trees: Iterable[Tree]) -> dict[Kind, list[Tree]]:
    """What stands at places of each kind in some trees, each once."""
    found: dict[Kind, dict[str, Tree]] = {}
    pending: list[tuple[tuple[Any, ...], Tree]] = [((), tree) for tree in trees]
    while pending:
        path, value = pending.pop()
        found.setdefault(kind_of(path), {}).setdefault(repr(value), value)
        if isinstance(value, dict):
            pending += [((*path, key), one) for key, one in value.items()]
        elif isinstance(value, list):
            pending += [((*path, number), one) for number, one in enumerate(value)]
    return {kind: list(values.values()) for kind, values in found.items() if kind}


def encode(tree: Tree) -> bytes | None:
    """The stored form of a tree; None where msgpack has none for it."""
    try:
        return msgspec.msgpack.encode(tree)
    except (RecursionError, OverflowError, UnicodeEncodeError):
        return None
