"""The grammar that tasks are drawn from: operators, patterns of them, layouts and sizes, as data.

Law: a grammar is TOML files and nothing of it is run as Python while it is read. A name that no
file states is refused with its file, its place and the nearest known name; nothing is drawn from a
grammar that was refused.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.base.errors import UsageError
from nki_agent.corpus.flow import Line, names_called, read_flow
from nki_agent.corpus.record import Family

ANY = "any"
ROWS = "rows"
LIKE = "like"
CLASSES = (ANY, ROWS)
"""What an operator may take besides layouts by name: any tensor, or one of rank 2 or more."""
GRAMMAR_FOLDER = "grammar"


class SizeKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an axis of one kind is long: ranges at the dev and odd sizes, choices at the perf ones."""

    name: str
    dev: tuple[int, int]
    odd: tuple[int, int]
    perf: tuple[int, ...]
    fixed: bool = False
    """Whether regimes leave it as it is: taps, groups, experts."""


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The axes of a tensor: names, each with its kind of size."""

    name: str
    axes: dict[str, str]
    shape: str = ""
    """The axes in these names, where they are not the names themselves: `B, G * C, H, W`."""
    words: str = ""
    """How a docstring calls such a tensor: "a batch of images"."""


class Helper(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A function of the task file that operators call: a loop over time."""

    name: str
    code: str


class Operator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: text with places for its operands, and what it asks and gives."""

    name: str
    words: str
    """How a docstring says it: "GELU", "the sum of each row"."""
    code: str
    """Lines of statements, then one expression. Places are `{x}`, `{weight}`, `{eps}`, `{last}`."""
    sets: tuple[str, ...] = ()
    args: tuple[str, ...] = ("x",)
    takes: tuple[str, ...] = (ANY,)
    """Layouts or classes that its first operand may have."""
    wants: tuple[str, ...] = ()
    """Signs that its first operand may have; any if none is named."""
    makes: str = "real"
    """Sign of its result: `real`, `nonnegative`, `positive`, `unit`, or `same` as its operand's."""
    gives: str = ""
    """Shapes of its results, with `;` between them; the operand's if empty."""
    layout: str = ""
    """Layouts of its results, with `;` between them; the operand's if empty."""
    dtype: str = ""
    """Dtypes of its results, with `;` between them; the operand's if empty."""
    sizes: dict[str, str] = {}
    inputs: dict[str, str] = {}
    weights: dict[str, str] = {}
    constants: dict[str, tuple[float | int | str, ...]] = {}
    holds: dict[str, str] = {}
    """Attributes of the module that keep a size."""
    rough: int = 2
    """0: moves and selects. 1: sums and products. 2: one function or sum. 3: long. 4: over time."""
    matmul: bool = False
    dtypes: tuple[str, ...] = ()
    """What it can compute in; anything if none is named."""
    helpers: tuple[str, ...] = ()
    """Functions that the file must hold."""


class Pattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How operators chain: lines such as `h = activation(linear(x))` over operators and sets."""

    name: str
    family: Family
    level: int
    title: str
    flow: str
    inputs: dict[str, str]
    outputs: tuple[str, ...] = ("y",)
    words: str = ""
    """A sentence with places for the targets' words; made of the operators' words if empty."""
    share: float = 1.0
    choices: dict[str, tuple[str, ...]] = {}
    """Sets of this pattern alone."""
    sizes: dict[str, str] = {}
    """Kinds of the sizes that its inputs name beside those of layouts."""
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    wide: bool = False
    """Whether a bfloat16 task computes in float32 inside."""
    rough: int = 0
    updates: tuple[str, ...] = ()
    """Inputs of which an output `new_<name>` may be written back in place."""
    tolerance: str = ""
    work: dict[str, str] = {}
    """`MATMUL_FLOPS` or `MIN_HBM_BYTES`."""


class GrammarFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one file may hold."""

    size: tuple[SizeKind, ...] = ()
    layout: tuple[Layout, ...] = ()
    helper: tuple[Helper, ...] = ()
    operator: tuple[Operator, ...] = ()
    pattern: tuple[Pattern, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """All files together, by name."""

    sizes: Mapping[str, SizeKind]
    layouts: Mapping[str, Layout]
    helpers: Mapping[str, Helper]
    operators: Mapping[str, Operator]
    sets: Mapping[str, tuple[Operator, ...]]
    patterns: Mapping[str, Pattern]
    flows: Mapping[str, tuple[Line, ...]]

    def operators_named(self, name: str, pattern: Pattern) -> tuple[Operator, ...]:
        """The operators that a name of a flow stands for."""
        if name in pattern.choices:
            return tuple(self.operators[n] for n in pattern.choices[name])
        if name in self.operators:
            return (self.operators[name],)
        return self.sets[name]


def read_grammar(path: Path | None = None) -> Grammar:
    """The shipped grammar, or the one of a file or folder.

    Raises:
        UsageError: what cannot be read or is not known, with file, place and the nearest name.
    """
    parsed = {name: _parse(text, name) for name, text in _read_files(path)}
    texts = dict(_read_files(path))
    grammar = Grammar(
        sizes=_by_name(parsed, "size"),
        layouts=_by_name(parsed, "layout"),
        helpers=_by_name(parsed, "helper"),
        operators=(operators := _by_name(parsed, "operator")),
        sets=_make_sets(operators),
        patterns=(patterns := _by_name(parsed, "pattern")),
        flows={name: _read_flow(p) for name, p in patterns.items()},
    )
    for name, file in parsed.items():
        _check_file(grammar, file, Place(file=name, text=texts[name]))
    return grammar


def _read_files(path: Path | None) -> list[tuple[str, str]]:
    if path is None:
        folder = files("nki_agent.corpus").joinpath(GRAMMAR_FOLDER)
        found = sorted(f.name for f in folder.iterdir() if f.name.endswith(".toml"))
        return [(name, folder.joinpath(name).read_text("utf-8")) for name in found]
    if not path.exists():
        raise UsageError(f"there is no grammar at {path}", hint="name a TOML file or a folder")
    paths = sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not paths:
        raise UsageError(f"the folder {path} holds no grammar", hint="a grammar is `*.toml` files")
    return [(p.name, p.read_text("utf-8")) for p in paths]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file of the grammar, for messages."""

    file: str
    text: str

    def refuse(self, what: str, name: str, known: Iterator[str] | tuple[str, ...]) -> UsageError:
        """Say which name is unknown, on which line, and which known one is nearest."""
        lines = self.text.splitlines()
        number = next((i for i, line in enumerate(lines, 1) if name in line), 1)
        near = difflib.get_close_matches(name, list(known), n=1)
        hint = f"did you mean `{near[0]}`?" if near else "state it in one of the grammar's files"
        return UsageError(f"{self.file}:{number}: {what} `{name}` is not known", hint=hint)


def _parse(text: str, name: str) -> GrammarFile:
    try:
        return msgspec.convert(tomllib.loads(text), GrammarFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(
            f"{name}: {error}", hint="docs/guides/write-a-grammar.md has what a grammar may hold"
        ) from error


def _by_name(parsed: Mapping[str, GrammarFile], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file, content in parsed.items():
        for item in getattr(content, kind):
            if item.name in found:
                raise UsageError(
                    f"{file}: the {kind} `{item.name}` is stated twice",
                    hint="give one of them another name",
                )
            found[item.name] = item
    return found


def _make_sets(operators: Mapping[str, Operator]) -> dict[str, tuple[Operator, ...]]:
    found: dict[str, list[Operator]] = {}
    for operator in operators.values():
        for name in operator.sets:
            found.setdefault(name, []).append(operator)
    return {name: tuple(members) for name, members in found.items()}


def _read_flow(pattern: Pattern) -> tuple[Line, ...]:
    try:
        return read_flow(pattern.flow)
    except ValueError as error:
        raise UsageError(
            f"the flow of the pattern `{pattern.name}`: {error}",
            hint="lines such as `h = activation(linear(x))`, with `?` for a step that may be left",
        ) from error


def _check_file(grammar: Grammar, file: GrammarFile, place: Place) -> None:
    for layout in file.layout:
        _check_kinds(grammar, layout.axes, place)
    for operator in file.operator:
        _check_kinds(grammar, operator.sizes, place)
        for taken in operator.takes:
            if taken not in CLASSES and taken not in grammar.layouts:
                raise place.refuse("the layout", taken, (*CLASSES, *grammar.layouts))
        for helper in operator.helpers:
            if helper not in grammar.helpers:
                raise place.refuse("the helper", helper, tuple(grammar.helpers))
    for pattern in file.pattern:
        _check_kinds(grammar, pattern.sizes, place)
        _check_pattern(grammar, pattern, place)


def _check_kinds(grammar: Grammar, sizes: Mapping[str, str], place: Place) -> None:
    for kind in sizes.values():
        if kind not in grammar.sizes:
            raise place.refuse("the kind of size", kind, tuple(grammar.sizes))


def _check_pattern(grammar: Grammar, pattern: Pattern, place: Place) -> None:
    for members in pattern.choices.values():
        for name in members:
            if name not in grammar.operators:
                raise place.refuse("the operator", name, tuple(grammar.operators))
    known = (*grammar.operators, *grammar.sets, *pattern.choices)
    for name in names_called(grammar.flows[pattern.name]):
        if name not in known:
            raise place.refuse("the operator or set", name, known)
    for text in pattern.inputs.values():
        if "[" not in text and not text.startswith(f"{LIKE} "):
            for layout in text.split()[0].split("|"):
                if layout not in grammar.layouts:
                    raise place.refuse("the layout", layout, tuple(grammar.layouts))
