"""The grammar that tasks are drawn from: operators, patterns of them, layouts and sizes, as data.

Law: a grammar is TOML, and nothing of it is run as Python while it is read. A name that no file
states is refused with its file, its line and the nearest known name, and so is text that is no
Python; nothing is drawn from a grammar that was refused.
"""

from __future__ import annotations

import ast
import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.base.bounded import UnreadableError, read_text
from nki_agent.base.errors import UsageError
from nki_agent.corpus.flow import Line, names_called, read_flow
from nki_agent.corpus.record import Family

ANY = "any"
ROWS = "rows"
LIKE = "like"
CLASSES = (ANY, ROWS)
"""What an operator may take besides layouts by name: any tensor, or one of rank 2 or more."""
GRAMMAR_FOLDER = "grammar"
HINT = "docs/guides/write-a-grammar.md says what a grammar may hold"
SHAPE_PLACES = ("shape", "lead", "middle", "tail", "rank", "last", "d0", "d1", "d2", "d3", "d4")
"""What a template may say of an operand's shape."""
_PLACE = re.compile(r"\{(\w+)\}")


class SizeKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long an axis of one kind is: ranges at dev and odd sizes, choices at perf ones."""

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
        UsageError: what cannot be read or is not known, with file, line and the nearest name.
    """
    places = [Place(file=name, text=text) for name, text in _read_files(path)]
    parsed = {place.file: _parse(place) for place in places}
    operators: dict[str, Operator] = _by_name(parsed, "operator")
    grammar = Grammar(
        sizes=_by_name(parsed, "size"),
        layouts=_by_name(parsed, "layout"),
        helpers=_by_name(parsed, "helper"),
        operators=operators,
        sets=_make_sets(operators),
        patterns=_by_name(parsed, "pattern"),
        flows={
            p.name: _read_flow(p, place) for place in places for p in parsed[place.file].pattern
        },
    )
    for place in places:
        _check_file(grammar, parsed[place.file], place)
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
    try:
        return [(p.name, read_text(p)) for p in paths]
    except UnreadableError as error:
        raise UsageError(f"a file of the grammar at {path} {error}", hint=HINT) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A file of the grammar, for messages."""

    file: str
    text: str

    def line_of(self, name: str) -> int:
        """The first line that holds the name as a word."""
        word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        lines = self.text.splitlines()
        return next((i for i, line in enumerate(lines, 1) if word.search(line)), 1)

    def refuse(self, what: str, name: str, known: Iterable[str]) -> UsageError:
        """Say which name is unknown, on which line, and which known one is nearest."""
        near = difflib.get_close_matches(name, list(known), n=1)
        hint = (
            f"did you mean `{near[0]}`?" if near else f"state it in a file of the grammar; {HINT}"
        )
        return UsageError(
            f"{self.file}:{self.line_of(name)}: {what} `{name}` is not known", hint=hint
        )


def _parse(place: Place) -> GrammarFile:
    try:
        return msgspec.convert(tomllib.loads(place.text), GrammarFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"{place.file}: {error}", hint=HINT) from error


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


def _read_flow(pattern: Pattern, place: Place) -> tuple[Line, ...]:
    try:
        return read_flow(pattern.flow)
    except ValueError as error:
        raise UsageError(
            f"{place.file}:{place.line_of(pattern.name)}: the flow of the pattern "
            f"`{pattern.name}`: {error}",
            hint="lines such as `h = activation(linear(x))`, with `?` for a step that may be left",
        ) from error


def _check_file(grammar: Grammar, file: GrammarFile, place: Place) -> None:
    for layout in file.layout:
        _check_known(layout.axes.values(), grammar.sizes, "the kind of size", place)
    for operator in file.operator:
        for name in set(operator.sets) & set(grammar.operators):
            raise UsageError(
                f"{place.file}:{place.line_of(operator.name)}: the set `{name}` of "
                f"`{operator.name}` is called as an operator is",
                hint="give the set another name",
            )
        _check_known(operator.sizes.values(), grammar.sizes, "the kind of size", place)
        _check_known(operator.takes, (*CLASSES, *grammar.layouts), "the layout", place)
        _check_known(operator.helpers, grammar.helpers, "the helper", place)
        _check_templates(operator, place)
        _check_code(operator, place)
    for pattern in file.pattern:
        _check_known(pattern.sizes.values(), grammar.sizes, "the kind of size", place)
        _check_pattern(grammar, pattern, place)


def _check_known(names: Iterable[str], known: Iterable[str], what: str, place: Place) -> None:
    known = tuple(known)
    for name in names:
        if name not in known:
            raise place.refuse(what, name, known)


def _check_pattern(grammar: Grammar, pattern: Pattern, place: Place) -> None:
    for members in pattern.choices.values():
        _check_known(members, grammar.operators, "the operator", place)
    lines = grammar.flows[pattern.name]
    known = (*grammar.operators, *grammar.sets, *pattern.choices)
    _check_known(names_called(lines), known, "the operator or set", place)
    layouts = [
        layout
        for text in pattern.inputs.values()
        if "[" not in text and not text.startswith(f"{LIKE} ")
        for layout in text.split()[0].split("|")
    ]
    _check_known(layouts, grammar.layouts, "the layout", place)
    given = (*pattern.inputs, *(target for line in lines for target in line.targets))
    _check_known(pattern.outputs, given, "the output", place)


def _check_templates(operator: Operator, place: Place) -> None:
    """Each place of a template is one that an operator has."""
    known = {"dtype", "stored", "torch_dtype", *SHAPE_PLACES, *operator.args}
    known |= {f"{arg}_{name}" for arg in operator.args for name in SHAPE_PLACES}
    known |= {*operator.constants, *(f"{name}_rest" for name in operator.constants)}
    known |= {*operator.sizes, *operator.inputs, *operator.weights, *operator.holds}
    templates = (operator.code, operator.gives, *operator.inputs.values())
    templates += (*operator.weights.values(), *operator.holds.values())
    places = [name for text in templates for name in _PLACE.findall(text)]
    _check_known(places, sorted(known), f"in `{operator.name}` the place", place)


def _check_code(operator: Operator, place: Place) -> None:
    text = _PLACE.sub("value", operator.code.strip())
    *before, last = text.splitlines() or [""]
    try:
        ast.parse(last, mode="eval")
        bodies = [ast.parse(line).body for line in before]
    except SyntaxError as error:
        raise _no_code(operator, place, str(error.msg)) from error
    if any(not isinstance(statement, ast.Assign) for body in bodies for statement in body):
        raise _no_code(operator, place, "a line before the last is no assignment")


def _no_code(operator: Operator, place: Place, why: str) -> UsageError:
    return UsageError(
        f"{place.file}:{place.line_of(operator.name)}: the code of `{operator.name}`: {why}",
        hint="assignments, one a line, then one expression, as in `torch.tanh({x})`",
    )
