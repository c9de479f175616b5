"""FlashInfer-Bench: definitions in JSON with axes, tensors and a `run`, and workloads beside them.

Law: a definition states its shapes, so that it becomes a task that declares its tensors: `perf` are
the axes of the largest workload, `dev` smaller ones. Where it has scalars, which a declaration does
not, it becomes one with an inputs function. Indices whose values only a recorded workload holds are
not invented: such a definition is unfit.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from nki_agent.bench.importers.draft import Draft, make_slug
from nki_agent.bench.importers.fitting import is_python
from nki_agent.bench.importers.kernelbench import make_templates
from nki_agent.bench.importers.listing import Listing
from nki_agent.bench.importers.sizes import Template
from nki_agent.isa.dtype import DType, find_dtype

VAR_DEFAULT: Final = 256
"""An axis that varies, where no workload says how large it is."""
SCALAR_DEFAULT: Final = 1.0
RANDOM: Final = "random"
SCALAR: Final = "scalar"
WIDE: Final = frozenset({"int32", "int64"})
"""What the format uses for indices and lengths."""


class Axis(msgspec.Struct, frozen=True):
    """A size: fixed, or varying from workload to workload."""

    type: str
    value: int | None = None


class Tensor(msgspec.Struct, frozen=True):
    """An input or output; a scalar has no shape."""

    dtype: str
    shape: tuple[str, ...] | None = None


class Definition(msgspec.Struct, frozen=True):
    """What one file of the format says; other fields are let be."""

    name: str
    axes: dict[str, Axis]
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    reference: str
    op_type: str = ""
    constraints: tuple[str, ...] = ()


class InputSource(msgspec.Struct, frozen=True):
    """Where a workload takes an input from."""

    type: str = RANDOM
    value: float | int | bool | None = None


class Workload(msgspec.Struct, frozen=True):
    """The varying axes of one call."""

    axes: dict[str, int]
    inputs: dict[str, InputSource] = {}
    uuid: str = ""


class Line(msgspec.Struct, frozen=True):
    """A line of a file of workloads or traces."""

    definition: str
    workload: Workload


@dataclass(frozen=True, slots=True)
class DeclaredTemplate:
    """A definition as a task that declares its tensors; its sizes are the axes at `dev`."""

    definition: Definition
    axes: Mapping[str, int]

    def sizes(self) -> Mapping[str, int]:
        """The axes of the workload."""
        return self.axes

    def split(self, name: str) -> Mapping[str, int]:  # noqa: ARG002 - an axis is one size
        """An axis is one size."""
        return {}

    def render(self, sizes: Mapping[str, int]) -> str:
        """The reference as it is, then what it is called on."""
        shapes = {"dev": {n: sizes[n] for n in self.axes}, "perf": dict(self.axes)}
        definition = self.definition
        lines = [definition.reference.rstrip(), "", "", "SHAPES = {"]
        lines += [f'    "{name}": {_write(values)},' for name, values in shapes.items()]
        lines.append("}")
        for name, tensors in (("INPUTS", definition.inputs), ("OUTPUTS", definition.outputs)):
            lines.append(f"{name} = {{")
            lines += [f'    "{key}": "{_declare(tensor)}",' for key, tensor in tensors.items()]
            lines.append("}")
        return "\n".join([*lines, "", "reference = run", ""])


def _write(values: Mapping[str, int]) -> str:
    return "{" + ", ".join(f'"{name}": {value}' for name, value in values.items()) + "}"


def _declare(tensor: Tensor) -> str:
    shape = ", ".join(tensor.shape or ())
    dtype = _stored(tensor)
    recipe = ""
    if dtype is not None and dtype.is_integer:
        recipe = " mask" if tensor.dtype == "bool" else " integers(-8, 8)"
    return f"{dtype.value if dtype else tensor.dtype}[{shape}]{recipe}"


def _stored(tensor: Tensor) -> DType | None:
    return find_dtype("int32" if tensor.dtype == "int64" else tensor.dtype)


def count_flashinfer(listing: Listing) -> int:
    """Files that look like definitions."""
    return sum(_is_definition(text) for text in listing.named(".json").values())


def _is_definition(text: str) -> bool:
    return all(f'"{key}"' in text for key in ("axes", "inputs", "outputs", "reference"))


def read_flashinfer(listing: Listing) -> list[Draft]:
    """One draft for each definition."""
    workloads: dict[str, list[Workload]] = {}
    for text in listing.named(".jsonl").values():
        for line in _read_lines(text):
            workloads.setdefault(line.definition, []).append(line.workload)
    drafts = []
    for path, text in listing.named(".json").items():
        if not _is_definition(text):
            continue
        try:
            definition = msgspec.json.decode(text, type=Definition)
        except (msgspec.DecodeError, RecursionError) as error:
            name = make_slug(PurePosixPath(path).stem)
            drafts.append(Draft(id=name, origin=path, problem=f"no definition: {error}"))
            continue
        drafts.append(_draft(definition, path, workloads.get(definition.name, [])))
    return drafts


def _read_lines(text: str) -> Iterator[Line]:
    for line in text.splitlines():
        try:
            yield msgspec.json.decode(line, type=Line)
        except (msgspec.DecodeError, RecursionError):
            continue  # a trace without a workload, or another file's line


def _draft(definition: Definition, path: str, workloads: list[Workload]) -> Draft:
    workload, notes = _choose(definition, workloads)
    axes = {
        name: workload.axes.get(name, VAR_DEFAULT) if axis.value is None else axis.value
        for name, axis in definition.axes.items()
    }
    problem = _find_problem(definition, axes, workload)
    templates: tuple[Template, ...] = ()
    if not problem:
        has_scalars = any(t.shape is None for t in definition.inputs.values())
        text = _with_inputs(definition, axes, workload) if has_scalars else ""
        templates = make_templates(text) if text else (DeclaredTemplate(definition, axes),)
    return Draft(
        id=make_slug(definition.name),
        origin=path,
        templates=templates,
        category=definition.op_type,
        notes=notes,
        problem=problem,
    )


def _choose(definition: Definition, workloads: list[Workload]) -> tuple[Workload, tuple[str, ...]]:
    """The largest workload, and what is said of the choice."""
    notes = []
    if definition.constraints:
        notes.append(f"constraints that are left to the reference: {list(definition.constraints)}")
    if not workloads:
        free = [n for n, axis in definition.axes.items() if axis.value is None]
        if free:
            notes.append(f"no workload: {', '.join(free)} taken as {VAR_DEFAULT}")
        return Workload(axes={}), tuple(notes)
    largest = max(workloads, key=lambda w: math.prod(max(v, 1) for v in w.axes.values()))
    if len(workloads) > 1:
        notes.append(f"the largest of {len(workloads)} workloads: {_write(largest.axes)}")
    return largest, tuple(notes)


def _find_problem(definition: Definition, axes: Mapping[str, int], workload: Workload) -> str:
    names = [*axes, *definition.inputs, *definition.outputs]
    if bad := [n for n in names if not n.isidentifier() or keyword.iskeyword(n)]:
        return f"`{bad[0]}` is no name of Python's"
    for name, tensor in (*definition.inputs.items(), *definition.outputs.items()):
        if unknown := [axis for axis in tensor.shape or () if axis not in axes]:
            return f"`{name}` has the axis `{unknown[0]}`, which is not defined"
        if tensor.shape is not None and _stored(tensor) is None:
            return f"`{name}` has the dtype {tensor.dtype}, which the chip lacks"
    for name, tensor in definition.inputs.items():
        kind = workload.inputs.get(name, InputSource()).type
        if tensor.shape is not None and kind not in {RANDOM, SCALAR}:
            return f"the values of `{name}` are recorded in a {kind} file, which is not read"
        if tensor.shape is not None and tensor.dtype in WIDE:
            return f"`{name}` holds indices or lengths, and nothing says which are valid"
    return is_python(definition.reference)


def _with_inputs(definition: Definition, axes: Mapping[str, int], workload: Workload) -> str:
    """The reference with a function that draws its tensors and gives its scalars."""
    lines = [definition.reference.rstrip(), "", "", "import torch", ""]
    lines += [f"{name} = {value}" for name, value in axes.items()]
    lines += ["", "", "def inputs():", "    return {"]
    for name, tensor in definition.inputs.items():
        lines.append(f'        "{name}": {_draw(tensor, workload.inputs.get(name))},')
    return "\n".join([*lines, "    }", "", "", "reference = run", ""])


def _draw(tensor: Tensor, source: InputSource | None) -> str:
    if tensor.shape is None:
        given: Any = SCALAR_DEFAULT if source is None or source.value is None else source.value
        return repr(int(given) if tensor.dtype.startswith("int") else given)
    shape = f"({', '.join(tensor.shape)}{',' if len(tensor.shape) == 1 else ''})"
    if tensor.dtype == "bool":
        return f"torch.rand({shape}) > 0.5"
    dtype = f"torch.{tensor.dtype}"
    if tensor.dtype.startswith("int"):
        return f"torch.randint(-8, 8, {shape}, dtype={dtype})"
    return f"torch.randn({shape}).to({dtype})"
