"""Every row of numerics.toml, run on the simulator."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki_agent.chip.spec import Target
from nki_agent.isa.declaration import Kind
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.signature import AttributeValue
from nki_agent.isa.table import TABLE
from tests.sim.build import Array, Builder, Operands, View

ROWS = tomllib.loads(Path(__file__).with_name("numerics.toml").read_text("utf-8"))["row"]


def array(form: dict[str, Any]) -> Array:
    dtype = DType(form["dtype"]).numpy_dtype
    source = np.array(form["values"], np.int64 if dtype.kind in "iu" else np.float32)
    source = np.concatenate([source] * form.get("repeat", 1))
    with np.errstate(all="ignore"):
        return source.astype(dtype)


def attribute(value: object) -> AttributeValue:
    if isinstance(value, list):
        return tuple(tuple(v) if isinstance(v, list) else v for v in value)
    assert isinstance(value, bool | int | float | str)
    return value


def load(
    builder: Builder, role: str, value: dict[str, Any] | list[dict[str, Any]] | float
) -> View | list[View] | float:
    if isinstance(value, list):
        return [builder.load(f"{role}{i}", array(v)) for i, v in enumerate(value)]
    if isinstance(value, dict):
        return builder.load(role, array(value), DType(value["dtype"]))
    return value


def build(row: dict[str, Any]) -> Builder:
    """The Program of a row, with its arguments."""
    builder = Builder(Target(row.get("target", "trn2")))
    operands: Operands = {
        role: load(builder, role, value) for role, value in row.get("operands", {}).items()
    }
    wanted, output = array(row["dst"]), row.get("output", "dst")
    memories = TABLE[row["op"]].parameter(output).memories
    memory = Memory.SBUF if Memory.SBUF in memories else Memory.PSUM
    if "before" in row:
        view = builder.load(output, array(row["before"]), DType(row["before"]["dtype"]))
    else:
        view = builder.tile(wanted.shape, DType(row["dst"]["dtype"]), memory)
    operands[output] = view
    form = row.get("tile", {})
    for parameter in TABLE[row["op"]].parameters:
        is_needed = parameter.kind is Kind.OUTPUT and not parameter.is_optional
        if is_needed and parameter.name not in operands:
            first = next(value for value in operands.values() if isinstance(value, View))
            shape = tuple(form.get("shape", first.pattern.shape))
            tile = builder.tile(shape, DType(form.get("dtype", "float32")))
            operands[parameter.name] = tile
    builder.add(
        row["op"],
        operands,
        engine=Engine(row["engine"]) if "engine" in row else None,
        **{name: attribute(value) for name, value in row.get("attributes", {}).items()},
    )
    builder.store(view)
    return builder


def run(row: dict[str, Any]) -> Array:
    return build(row).outputs()[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['op']}: {row['law']}")
def test_row_holds(row: dict[str, Any]) -> None:
    assert row["source"]
    wanted = array(row["dst"]).astype(np.float64)
    tolerance = row.get("tolerance", 0.0)
    assert run(row).astype(np.float64) == pytest.approx(wanted, rel=0.0, abs=tolerance, nan_ok=True)
