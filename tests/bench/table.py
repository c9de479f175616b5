"""The table from which the benchmark's tasks are written, read for the tests.

`vocabulary.py` beside it holds the functions that its one-line semantics use.
"""

from __future__ import annotations

import ast
import csv
import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nki_agent.isa.dtype import DType
from tests.bench import vocabulary

FOLDER = Path(__file__).parent
TABLE = FOLDER / "tasks250.tsv"
CORRECTIONS = FOLDER / "corrections.toml"
DTYPES = {
    "f32": DType.FLOAT32,
    "bf16": DType.BFLOAT16,
    "f8": DType.FLOAT8_E4M3,
    "i32": DType.INT32,
    "i8": DType.INT8,
    "u8": DType.UINT8,
}
RECIPES = {
    "": "normal",
    "w": "weight",
    "wh": "weight",
    "wo": "weight_out_in",
    "wt": "weight_transposed",
    "w8": "normal",
    "wc": "weight_codes",
    "g": "gain",
    "b": "bias",
    "p": "positive",
    "v": "variance",
    "lo": "negative",
    "m": "mask",
    "d": "decay",
    "u": "unit",
    "s": "small",
    "A": "state_decay",
    "lr": "learning_rate",
    "adam": "adam",
    "ang": "angle",
    "cos": "cosine",
    "sin": "sine",
    "qs": "scale",
    "rs": "requantise",
    "q8": "integers",
    "byte": "integers",
    "z4": "integers",
    "seg": "segments",
    "len": "lengths",
    "PL": "unique",
    "P2P": "unique",
}
"""Recipe of the table to the name in a task file; other `i…` are `index`."""
_TENSOR = re.compile(r"(\w+)\[([^\]]*)\](?::(\w+))?(?:~(\w+))?")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of `inputs_spec` or `outputs_spec`."""

    name: str
    shape: tuple[str, ...]
    dtype: DType
    recipe: str

    def shape_at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape at one choice of the sizes."""
        return tuple(_evaluate(size, sizes) for size in self.shape)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    cells: Mapping[str, str]

    @property
    def task_id(self) -> str:
        """The id that the task file has: `l2-rmsnorm-linear-bf16`."""
        return f"l{self.cells['level']}-{self.cells['name'].replace('_', '-').lower()}"

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """The table's name of each tensor that the task file calls by a longer one."""
        file = FOLDER / f"names_l{self.cells['level']}.toml"
        found: dict[str, dict[str, str]] = tomllib.loads(file.read_text())
        return found.get(self.task_id, {})

    @property
    def semantics(self) -> str:
        """Lines of PyTorch over the vocabulary."""
        return self.cells["semantics"]

    @property
    def sizes(self) -> dict[str, dict[str, int]]:
        """The sizes at perf and dev."""
        found: dict[str, dict[str, int]] = {"perf": {}, "dev": {}}
        for entry in self.cells["dims_perf_dev"].split():
            name, _, values = entry.partition("=")
            perf, dev = values.split(":")
            found["perf"][name], found["dev"][name] = int(perf), int(dev)
        return found

    @property
    def inputs(self) -> list[Tensor]:
        """Everything that a kernel is given."""
        return _read_tensors(self.cells["inputs_spec"])

    @property
    def outputs(self) -> list[Tensor]:
        """Everything that it gives back."""
        return _read_tensors(self.cells["outputs_spec"])

    def run(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
        """Run the semantics on tensors by name."""
        # A size may have the name of a function (`T`), which the semantics then mean.
        scope = {**sizes, **vars(vocabulary), **inputs}
        exec(self.semantics, scope)
        return {output.name: scope[output.name] for output in self.outputs}


def _read_tensors(spec: str) -> list[Tensor]:
    return [
        Tensor(
            name=name,
            shape=tuple(shape.split(",")),
            dtype=DTYPES[dtype or "f32"],
            recipe=RECIPES.get(recipe, "index"),
        )
        for name, shape, dtype, recipe in _TENSOR.findall(spec)
    ]


def _evaluate(text: str, sizes: Mapping[str, int]) -> int:
    return int(eval(compile(ast.parse(text, mode="eval"), "<table>", "eval"), {}, dict(sizes)))


@functools.cache
def read_rows() -> tuple[Row, ...]:
    """The lines of the table in order, with its wrong cells put right."""
    right: dict[str, dict[str, str]] = tomllib.loads(CORRECTIONS.read_text())
    with TABLE.open() as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    return tuple(Row({**cells, **right.get(cells["name"], {})}) for cells in lines)
