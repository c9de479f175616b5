"""Fills a pattern: chooses operators, constants and layouts, and follows shapes symbolically.

Law: the choice depends on the generator that is passed in alone. An operator is chosen among those
that take the operand's layout and the sign of its values; where none does, the pattern gives
nothing. Names of tensors and attributes are tokens here; `naming` gives them their own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nki_agent.corpus.flow import Call, Line
from nki_agent.corpus.grammar import ANY, LIKE, ROWS, Grammar, Operator, Pattern
from nki_agent.corpus.shape_text import Axes, fill, shape_places, split_shape

BFLOAT16, FLOAT32 = "bfloat16", "float32"
FREE = "free"
"""The layout of a tensor that the pattern declares axis by axis."""
SAME = "same"
CODES = ("int8 ", "uint8 ", "int32 ")
"""What may stand between a layout and a recipe: a dtype that is not the task's."""
WORK = ""
"""The dtype of values that the task computes with; other dtypes are named."""
INLINE_MAX = 64
"""Characters of an expression that is put into another one; longer ones get a name."""
_ROWS_RANK = 2
_NAME = re.compile(r"\w+")
_ONE_CALL = re.compile(
    r"(?:(?:torch|F)\.\w+\(\{x\}[^({]*\)|\{x\}\.\w+\([^({]*\)|\{x\} [+*-] \{y\})"
)
_KEPT_SHARE = 0.5
_TRIES = 8


class NothingFits(Exception):  # noqa: N818 - a turn of the draw, and no fault
    """No operator takes what the flow has come to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A tensor of the computation, as text."""

    text: str
    axes: Axes
    layout: str
    sign: str = "real"
    dtype: str = WORK
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input or weight under its token."""

    token: str
    base: str
    target: str
    declared: str
    axes: Axes
    dtype: str
    recipe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """`targets = text`."""

    targets: tuple[str, ...]
    text: str


@dataclass(slots=True, kw_only=True)
class Draft:
    """A task in the making."""

    pattern: Pattern
    dtype: str
    is_wide: bool
    sizes: dict[str, str] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    weights: list[Tensor] = field(default_factory=list)
    holds: dict[str, str] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    subject: str = ""
    """How the docstring calls the first input."""

    @property
    def work_dtype(self) -> str:
        """What it computes in."""
        return FLOAT32 if self.is_wide else self.dtype


def expand(grammar: Grammar, pattern: Pattern, rng: np.random.Generator) -> Draft:
    """Fill the pattern.

    Raises:
        NothingFits: no operator of a set takes what comes to it.
    """
    dtype = str(rng.choice(list(pattern.dtypes)))
    draft = Draft(pattern=pattern, dtype=dtype, is_wide=pattern.wide and dtype == BFLOAT16)
    expander = _Expander(grammar=grammar, draft=draft, rng=rng)
    for name, text in pattern.inputs.items():
        expander.declare_input(name, text)
    for line in grammar.flows[pattern.name]:
        expander.run_line(line)
    if draft.is_wide and _rounds_once(draft):
        draft.is_wide = False
    return draft


def _rounds_once(draft: Draft) -> bool:
    """Whether one function of PyTorch is all there is: it rounds once by itself."""
    if len(draft.operators) != 1 or draft.weights:
        return False
    operator = draft.operators[0]
    return not operator.inputs and _ONE_CALL.fullmatch(operator.code) is not None


@dataclass(slots=True, kw_only=True)
class _Expander:
    grammar: Grammar
    draft: Draft
    rng: np.random.Generator
    target: str = ""
    last: Operator | None = None
    num_tokens: int = 0

    # -- inputs -----------------------------------------------------------------------------------
    def declare_input(self, name: str, text: str) -> None:
        """An input of the pattern, by a layout, `like` another, or axis by axis."""
        head, _, recipe = text.partition(" ")
        layout = FREE
        if "[" in text:
            axes, dtype, recipe = self.read_tensor(text, self.places_of_inputs())
            self.note_sizes(", ".join((*axes, recipe)))
        elif head == LIKE:
            other, _, recipe = recipe.partition(" ")
            axes, layout, dtype = (
                self.draft.values[other].axes,
                self.draft.values[other].layout,
                self.draft.dtype,
            )
        else:
            layout = str(self.rng.choice(head.split("|")))
            found = self.grammar.layouts[layout]
            self.draft.sizes |= found.axes
            self.draft.subject = self.draft.subject or found.words
            dtype = self.draft.dtype
            if recipe.startswith(CODES):
                dtype, _, recipe = recipe.partition(" ")
            axes = split_shape(found.shape or ", ".join(found.axes))
        tensor = self.add_tensor(
            self.draft.inputs, base=name, axes=axes, dtype=dtype, recipe=recipe
        )
        self.draft.values[name] = Value(
            text=tensor.token,
            axes=axes,
            layout=layout,
            sign=_SIGNS.get(recipe, "real"),
            dtype=WORK if dtype == self.draft.dtype else dtype,
        )

    def places_of_inputs(self) -> dict[str, str]:
        places = {"dtype": self.draft.dtype}
        for name, value in self.draft.values.items():
            places |= shape_places(value.axes, prefix=f"{name}_")
        return places

    def note_sizes(self, axis: str) -> None:
        for name in _NAME.findall(axis):
            if name in self.draft.pattern.sizes:
                self.draft.sizes.setdefault(name, self.draft.pattern.sizes[name])

    def read_tensor(self, text: str, places: dict[str, str]) -> tuple[Axes, str, str]:
        """Axes, dtype and recipe of `{dtype}[{lead}, N] gain`."""
        filled = fill(text, places)
        dtype, _, rest = filled.partition("[")
        shape, _, recipe = rest.partition("]")
        return split_shape(shape), dtype.strip(), recipe.strip()

    def add_tensor(
        self, into: list[Tensor], *, base: str, axes: Axes, dtype: str, recipe: str
    ) -> Tensor:
        self.num_tokens += 1
        kind = "i" if into is self.draft.inputs else "w"
        shape = f"{dtype}[{', '.join(axes)}]"
        tensor = Tensor(
            token=f"_{kind}{self.num_tokens}_",
            base=base,
            target=self.target,
            declared=f"{shape} {recipe}".strip(),
            axes=axes,
            dtype=dtype,
            recipe=recipe,
        )
        into.append(tensor)
        return tensor

    # -- the flow ---------------------------------------------------------------------------------
    def run_line(self, line: Line) -> None:
        """One assignment."""
        self.target = line.targets[0]
        results = self.call(line.value)
        if len(line.targets) == 1 and len(results) == 1:
            value = results[0]
            self.draft.words[self.target] = ", then ".join(value.words)
            if value.text.isidentifier():
                self.draft.values[self.target] = value
                return
            self.assign((self.target,), value.text)
            self.draft.values[self.target] = _renamed(value, self.target)
            return
        if len(results) != len(line.targets):
            raise NothingFits(f"{len(results)} results for {line.targets}")
        self.draft.words[self.target] = ", then ".join(results[0].words)
        self.assign(line.targets, results[0].text)
        for target, value in zip(line.targets, results, strict=True):
            self.draft.values[target] = _renamed(value, target)

    def assign(self, targets: tuple[str, ...], text: str) -> None:
        self.draft.statements.append(Statement(targets=targets, text=text))

    def call(self, call: Call) -> tuple[Value, ...]:
        """The values of a call; those of several results share one text."""
        operands = []
        for operand in call.operands:
            if isinstance(operand, str):
                operands.append(self.draft.values[operand])
            else:
                operands.append(self.call(operand)[0])
        if call.optional and self.rng.random() >= _KEPT_SHARE:
            return (operands[0],)
        return self.apply(self.choose(call.name, operands), operands)

    def choose(self, name: str, operands: Sequence[Value]) -> Operator:
        members = self.grammar.operators_named(name, self.draft.pattern)
        fitting = [m for m in members if self.fits(m, operands)]
        if not fitting:
            raise NothingFits(name)
        if len(fitting) > 1:
            fitting = [m for m in fitting if m is not self.last]
        return fitting[int(self.rng.integers(len(fitting)))]

    def fits(self, operator: Operator, operands: Sequence[Value]) -> bool:
        first = operands[0]
        takes = operator.takes
        has_layout = (
            ANY in takes
            or first.layout in takes
            or (ROWS in takes and len(first.axes) >= _ROWS_RANK)
        )
        if operator.dtypes and self.draft.work_dtype not in operator.dtypes:
            return False
        return has_layout and (not operator.wants or first.sign in operator.wants)

    def apply(self, operator: Operator, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Write the operator on its operands."""
        if len(operands) != len(operator.args):
            raise NothingFits(f"{operator.name} has {len(operator.args)} operands")
        self.draft.operators.append(operator)
        for name in operator.helpers:
            self.draft.helpers[name] = self.grammar.helpers[name].code.strip()
        self.last = operator
        words = (*operands[0].words, *([operator.words] if operator.words else []))
        texts = [
            value.text if self.is_inlined(operator, name, value) else self.hoist(value.text)
            for name, value in zip(operator.args, operands, strict=True)
        ]
        places = self.make_places(operator, operands)
        code = dict(zip(operator.args, (f"({t})" for t in texts), strict=True))
        text = self.write_code(operator, {**places, **code})
        return self.make_results(operator, operands[0], text, places, words)

    def is_inlined(self, operator: Operator, name: str, value: Value) -> bool:
        if value.text.isidentifier():
            return True
        is_once = operator.code.count("{" + name + "}") <= 1
        return is_once and len(value.text) <= INLINE_MAX and "\n" not in operator.code

    def hoist(self, text: str, name: str = "inner") -> str:
        name = self.fresh(name)
        self.assign((name,), text)
        return name

    def fresh(self, name: str) -> str:
        """A local name that is not taken yet."""
        taken = {target for s in self.draft.statements for target in s.targets}
        taken |= set(self.draft.values) | {
            target
            for line in self.grammar.flows[self.draft.pattern.name]
            for target in line.targets
        }
        number, found = 1, name
        while found in taken:
            number += 1
            found = f"{name}{number}"
        return found

    def make_places(self, operator: Operator, operands: Sequence[Value]) -> dict[str, str]:
        draft = self.draft
        places = {
            "dtype": draft.work_dtype,
            "stored": draft.dtype,
            "torch_dtype": f"torch.{draft.work_dtype}",
        }
        for name, value in zip(operator.args, operands, strict=True):
            places |= shape_places(value.axes, prefix=f"{name}_")
        places |= shape_places(operands[0].axes)
        for name, choices in operator.constants.items():
            chosen = choices[int(self.rng.integers(len(choices)))]
            places[name] = str(chosen)
            if isinstance(chosen, float) and 0 < chosen < 1:
                places[f"{name}_rest"] = f"{1 - chosen:g}"
        for name, kind in operator.sizes.items():
            places[name] = self.add_size(name, kind)
        for name, text in operator.inputs.items():
            places[name] = self.declare(draft.inputs, name, text, places)
        for name, text in operator.weights.items():
            places[name] = f"self.{self.declare(draft.weights, name, text, places)}"
        for name, text in operator.holds.items():
            size = ast.unparse(ast.parse(fill(text, places)))
            places[name] = f"self.{self.hold(name, size)}"
        return places

    def declare(self, into: list[Tensor], base: str, text: str, places: dict[str, str]) -> str:
        axes, dtype, recipe = self.read_tensor(text, places)
        if into is self.draft.inputs and dtype == self.draft.work_dtype:
            dtype = self.draft.dtype
        return self.add_tensor(into, base=base, axes=axes, dtype=dtype, recipe=recipe).token

    def add_size(self, name: str, kind: str) -> str:
        number, found = 1, name
        while found in self.draft.sizes:
            number += 1
            found = f"{name}{number}"
        self.draft.sizes[found] = kind
        return found

    def hold(self, name: str, size: str) -> str:
        number, found = 1, name
        while self.draft.holds.get(found, size) != size:
            number += 1
            found = f"{name}{number}"
        self.draft.holds[found] = size
        return found

    def write_code(self, operator: Operator, places: dict[str, str]) -> str:
        """Add its statements, and give its expression."""
        *before, last = operator.code.strip().splitlines()
        local: dict[str, str] = {}
        own = [t.strip() for line in before for t in line.partition(" = ")[0].split(",")]
        if own:
            # Its own names become places too, since another step may have taken them already.
            pattern = re.compile(rf"(?<![\w.{{])({'|'.join(own)})(?![\w}}])")
            last = pattern.sub(r"{\1}", last)
            before = [_open_names(line, pattern) for line in before]
        for line in before:
            targets, _, text = line.partition(" = ")
            filled = _neat(fill(text, {**places, **local}))
            names = tuple(self.fresh(t.strip()) for t in targets.split(","))
            self.assign(names, filled)
            local |= dict(zip((t.strip() for t in targets.split(",")), names, strict=True))
        return _neat(fill(last, {**places, **local}))

    def make_results(
        self,
        operator: Operator,
        first: Value,
        text: str,
        places: dict[str, str],
        words: tuple[str, ...],
    ) -> tuple[Value, ...]:
        shapes = operator.gives.split(";") if operator.gives else [""]
        layouts = _spread(operator.layout, len(shapes))
        dtypes = _spread(operator.dtype, len(shapes))
        return tuple(
            Value(
                text=text,
                axes=split_shape(fill(shape, places)) if operator.gives else first.axes,
                layout=layout or (FREE if operator.gives else first.layout),
                sign=first.sign if operator.makes == SAME else operator.makes,
                dtype=_dtype_of(dtype, first.dtype, self.draft),
                words=words,
            )
            for shape, layout, dtype in zip(shapes, layouts, dtypes, strict=True)
        )


_SIGNS = {
    "positive": "positive",
    "variance": "positive",
    "unit": "unit",
    "decay": "unit",
    "mask": "nonnegative",
}


def _renamed(value: Value, name: str) -> Value:
    return Value(
        text=name,
        axes=value.axes,
        layout=value.layout,
        sign=value.sign,
        dtype=value.dtype,
        words=value.words,
    )


def _spread(text: str, number: int) -> list[str]:
    parts = [part.strip() for part in text.split(";")]
    return parts if len(parts) == number else parts * number


def _dtype_of(stated: str, operand: str, draft: Draft) -> str:
    if not stated:
        return operand
    if stated in ("{dtype}", "work"):
        return WORK
    return WORK if stated == draft.work_dtype and not draft.is_wide else stated


def _open_names(line: str, pattern: re.Pattern[str]) -> str:
    head, _, text = line.partition(" = ")
    return f"{head} = " + pattern.sub(r"{\1}", text)


def _neat(text: str) -> str:
    """The expression with as few parentheses as it needs."""
    body = ast.parse(text, mode="eval").body
    if isinstance(body, ast.Tuple):
        return ", ".join(ast.unparse(part) for part in body.elts)
    return ast.unparse(body)
