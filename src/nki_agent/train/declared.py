"""The tensors that a corpus task declares, read from its text without running it.

Law: an axis is text in names of sizes, as the file has it; a declaration of another form is none.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Final

from nki_agent.corpus.shape_text import Axes, split_shape
from nki_agent.task.declaration import INPUTS, OUTPUTS, PARAMETERS

TABLES: Final = (INPUTS, PARAMETERS, OUTPUTS)
_TENSOR = re.compile(r"(?P<dtype>\w+)\[(?P<axes>[^\]]*)\](?P<rest>.*)")


@dataclass(frozen=True, slots=True)
class Tensor:
    """`float32[B, 2 * S] normal`."""

    dtype: str
    axes: Axes
    rest: str
    """What follows the shape: a recipe."""

    def __str__(self) -> str:
        """As the file declares it."""
        return f"{self.dtype}[{', '.join(self.axes)}]{self.rest}"


@dataclass(frozen=True, slots=True)
class Table:
    """One of `TABLES` with the lines that it stands on, counted from 1."""

    name: str
    tensors: dict[str, Tensor]
    first: int
    last: int


def read_tables(source: str) -> list[Table] | None:
    """The tables in the order of the file; None where a declaration has another form."""
    found = []
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in TABLES:
                pass
            case _:
                continue
        tensors = {}
        for tensor, text in ast.literal_eval(value).items():
            declared = _TENSOR.fullmatch(text)
            if declared is None:
                return None
            tensors[tensor] = Tensor(
                declared["dtype"], split_shape(declared["axes"]), declared["rest"]
            )
        last = statement.end_lineno or statement.lineno
        found.append(Table(name, tensors, statement.lineno, last))
    return found
