"""What a task file declares about its tensors, as text: `bfloat16[tokens, heads * 64] gain`.

Law: a declaration is a dtype, a shape in names of sizes and whole numbers, and the recipe that its
values are drawn by (`normal` if none is named). Sizes come from the file's `SHAPES`; nothing of a
declaration is run as Python.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Final

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.task.named_recipe import RECIPES, NamedRecipe
from nki_agent.task.userfile import UserFile

_FORM: Final = re.compile(
    r"\s*(?P<dtype>\w+)\s*\[(?P<shape>[^\[\]]*)\]\s*(?:(?P<recipe>\w+)\s*(?:\((?P<sizes>.*)\))?)?\s*"
)
_HINT: Final = (
    "write it as `dtype[size, size] recipe`, as in `bfloat16[M, N]` or `int32[T] index(V)`"
)
_OPERATORS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
LENGTH_MAX: Final = 200
"""Characters of one declaration."""
SHAPES, INPUTS, PARAMETERS, OUTPUTS = "SHAPES", "INPUTS", "PARAMETERS", "OUTPUTS"
MATMUL_FLOPS, MIN_HBM_BYTES = "MATMUL_FLOPS", "MIN_HBM_BYTES"
MATMUL_DTYPE = "MATMUL_DTYPE"
DEV, PERF, ODD = "dev", "perf", "odd"
NAMES: Final = (DEV, PERF, ODD)
SIZE_MAX: Final = 2**31
"""Sizes are below this: the chip counts in 32 bits."""
_SHAPES_HINT = 'as in SHAPES = {"dev": {"M": 130}, "perf": {"M": 4096}}'

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Size:
    """A whole number in names of sizes: `2 * H`."""

    text: str

    def value(self, sizes: Mapping[str, int]) -> int:
        """The number at one choice of the sizes.

        Raises:
            TaskError: it names no size, or is no whole number.
        """
        try:
            return _evaluate(_parse(self.text), sizes)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError) as error:
            raise TaskError(
                f"`{self.text}` is no size: {_reason(error)}",
                hint=f"use whole numbers, + - * // and the names {', '.join(sizes)}",
            ) from error


@lru_cache(maxsize=1024)
def _parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One tensor of a task file, before its sizes are known."""

    dtype: DType
    shape: tuple[Size, ...]
    recipe: str
    bounds: tuple[Size, ...]
    """What stands in the recipe's parentheses."""

    def shape_at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape at one choice of the sizes."""
        found = tuple(size.value(sizes) for size in self.shape)
        if any(size < 1 for size in found):
            raise TaskError(
                f"a shape is {list(found)} at {dict(sizes)}",
                hint="every dimension must be at least 1",
            )
        return found

    def recipe_at(self, sizes: Mapping[str, int]) -> NamedRecipe:
        """The recipe with its bounds at one choice of the sizes."""
        return NamedRecipe(name=self.recipe, bounds=tuple(b.value(sizes) for b in self.bounds))


def read_declaration(text: object, *, what: str, is_drawn: bool = True) -> Declaration:
    """Read one declaration; `what` names its tensor. One that is not drawn has no recipe.

    Raises:
        TaskError: it has not the form, or names a dtype or recipe that does not exist.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) and len(text) <= LENGTH_MAX else None
    if found is None:
        raise TaskError(f"{what} is declared as {_shorten(text)}", hint=_HINT)
    dtype = find_dtype(found["dtype"])
    if dtype is None:
        raise TaskError(
            f"{what} has the dtype `{found['dtype']}`",
            hint=f"one of {', '.join(d.value for d in DType if not d.is_packed)}",
        )
    recipe = found["recipe"] or "normal"
    bounds = _split(found["sizes"] or "")
    if not is_drawn:
        if found["recipe"]:
            raise TaskError(f"{what} has a recipe", hint="an output is a dtype and a shape")
    elif recipe not in RECIPES or len(bounds) != RECIPES[recipe].num_bounds:
        known = ", ".join(f"`{kind}`" for kind in RECIPES.values())
        raise TaskError(f"{what} has the recipe {_shorten(text)}", hint=f"one of {known}")
    elif dtype.is_integer and not RECIPES[recipe].is_whole:
        whole = ", ".join(f"`{kind}`" for kind in RECIPES.values() if kind.is_whole)
        raise TaskError(
            f"{what} is {dtype.value}, and the recipe `{recipe}` gives reals",
            hint=f"one of {whole}",
        )
    return Declaration(
        dtype=dtype,
        shape=_split(found["shape"]),
        recipe=recipe,
        bounds=bounds,
    )


def _split(text: str) -> tuple[Size, ...]:
    return tuple(Size(part.strip()) for part in text.split(",") if part.strip())


def _evaluate(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, sizes)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(left, sizes), _evaluate(right, sizes))
        case _:
            raise ValueError(f"`{ast.unparse(node)}` is neither a whole number nor a known name")


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _shorten(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= LENGTH_MAX else f"{shown[:LENGTH_MAX]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What a task file declares."""

    shapes: Mapping[str, Sizes]
    inputs: Mapping[str, Declaration]
    parameters: Mapping[str, Declaration]
    outputs: Mapping[str, Declaration]
    work: Mapping[str, str]
    """What replaces the counts of a run: `MATMUL_FLOPS` and `MIN_HBM_BYTES`, expressions in sizes,
    and `MATMUL_DTYPE`, the format that the products can be made in.
    """

    @property
    def sizes(self) -> Sizes:
        """The sizes at the dev shapes."""
        return self.shapes[DEV]


def read_declared(user: UserFile) -> Declared | None:
    """Read the declarations of a file; None where it has none.

    Raises:
        TaskError: a declaration cannot be used, or one of them is missing.
    """
    module = user.module
    if not hasattr(module, SHAPES):
        return None
    tensors = {
        name: _read_tensors(module, name, file=user.path.name)
        for name in (INPUTS, PARAMETERS, OUTPUTS)
    }
    for needed in (INPUTS, OUTPUTS):
        if not tensors[needed]:
            raise TaskError(
                f"{user.path.name} has {SHAPES}, but no {needed}",
                hint=f'as in {needed} = {{"x": "bfloat16[M, N]"}}',
            )
    names = (MATMUL_FLOPS, MIN_HBM_BYTES, MATMUL_DTYPE)
    work = {name: str(getattr(module, name)) for name in names if hasattr(module, name)}
    return Declared(
        shapes=_read_shapes(module, file=user.path.name),
        inputs=tensors[INPUTS],
        parameters=tensors[PARAMETERS],
        outputs=tensors[OUTPUTS],
        work=work,
    )


def _read_shapes(module: ModuleType, *, file: str) -> dict[str, dict[str, int]]:
    found = getattr(module, SHAPES)
    if not isinstance(found, dict) or DEV not in found or not set(found) <= set(NAMES):
        raise TaskError(f"{SHAPES} in {file} has not the form that it needs", hint=_SHAPES_HINT)
    for name, sizes in found.items():
        if not isinstance(sizes, dict) or list(sizes) != list(found[DEV]):
            raise TaskError(
                f"{SHAPES} in {file}: `{name}` does not name the sizes that `{DEV}` names",
                hint=_SHAPES_HINT,
            )
        for size, value in sizes.items():
            if type(value) is not int or not 1 <= value < SIZE_MAX:
                raise TaskError(
                    f"{SHAPES} in {file}: `{size}` of `{name}` is {value!r}",
                    hint=f"a whole number from 1 to {SIZE_MAX - 1}",
                )
    return {name: dict(found[name]) for name in NAMES if name in found}


def _read_tensors(module: ModuleType, name: str, *, file: str) -> dict[str, Declaration]:
    found = getattr(module, name, {})
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise TaskError(
            f"{name} in {file} is no mapping of names to declarations",
            hint=f'as in {name} = {{"x": "bfloat16[M, N]"}}',
        )
    return {
        key: read_declaration(text, what=f"{file}: `{key}` of {name}", is_drawn=name != OUTPUTS)
        for key, text in found.items()
    }
