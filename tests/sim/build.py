"""Programs made by hand, so that the simulator's tests need no front end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nki_agent.base.diagnostic import Frame
from nki_agent.base.hashes import hash_bytes
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.signature import SCALAR_PATTERN, AttributeValue, Operand, Pattern, Signature
from nki_agent.isa.table import TABLE
from nki_agent.program.records import (
    Access,
    Argument,
    Constant,
    Dialect,
    Init,
    Instruction,
    Launch,
    Program,
    Result,
    Tensor,
)
from nki_agent.program.validate import check_program
from nki_agent.sim.execute import Executable, RunResult, compile_program

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class View:
    """A view of a tensor: bytes from the start of a partition, and the pattern from there."""

    tensor: int
    memory: Memory
    dtype: DType
    offset: int
    pattern: Pattern


Operands = dict[str, "View | list[View] | float | int | None"]


def row_major(counts: Sequence[int], itemsize: int) -> tuple[tuple[int, int], ...]:
    axes: list[tuple[int, int]] = []
    stride = itemsize
    for count in reversed(counts):
        axes.append((stride, count))
        stride *= count
    return tuple(reversed(axes))


class Builder:
    """Adds tensors and instructions; `run` validates, compiles and executes."""

    def __init__(self, target: Target = Target.TRN2) -> None:
        self.target = target
        self.tensors: list[Tensor] = []
        self.arguments: list[Argument] = []
        self.arrays: dict[str, Array] = {}
        self.constants: list[Constant] = []
        self.results: list[Result] = []
        self.signatures: list[Signature] = []
        self.body: list[Instruction] = []

    def _add_tensor(self, tensor: Tensor) -> View:
        self.tensors.append(tensor)
        counts = tensor.shape[1:] if tensor.memory.is_on_chip else tensor.shape
        partition = (0, 1, tensor.shape[0]) if tensor.memory.is_on_chip else None
        pattern = Pattern(partition, row_major(counts, tensor.dtype.itemsize))
        return View(len(self.tensors) - 1, tensor.memory, tensor.dtype, 0, pattern)

    def argument(self, name: str, array: Array, dtype: DType | None = None) -> View:
        dtype = dtype or find_dtype(array.dtype)
        assert dtype is not None
        view = self._add_tensor(Tensor(name, Memory.HBM, array.shape, dtype, Init.ARGUMENT, 0))
        self.arguments.append(Argument(name, view.tensor, None, Access.UPDATE))
        self.arrays[name] = array
        return view

    def constant(self, array: Array) -> View:
        dtype = find_dtype(array.dtype)
        assert dtype is not None
        data = array.tobytes()
        self.constants.append(Constant(hash_bytes(data), dtype, array.shape, data))
        index = len(self.constants) - 1
        return self._add_tensor(
            Tensor("c", Memory.SHARED_HBM, array.shape, dtype, Init.CONSTANT, 0, constant=index)
        )

    def tile(
        self,
        shape: tuple[int, ...],
        dtype: DType = DType.FLOAT32,
        memory: Memory = Memory.SBUF,
        address: tuple[int, int] | None = None,
    ) -> View:
        tensor = Tensor("t", memory, shape, dtype, Init.POISON, 0, address=address)
        return self._add_tensor(tensor)

    def view(
        self,
        view: View,
        *,
        rows: tuple[int, int, int] | None = None,
        free: Sequence[tuple[int, int]] | None = None,
        offset: int = 0,
        dtype: DType | None = None,
    ) -> View:
        pattern = Pattern(
            rows if rows is not None else view.pattern.partition,
            tuple(free) if free is not None else view.pattern.free,
        )
        return View(view.tensor, view.memory, dtype or view.dtype, view.offset + offset, pattern)

    def columns(self, view: View, start: int, stop: int) -> View:
        size = view.dtype.itemsize
        return self.view(view, free=((size, stop - start),), offset=start * size)

    def add(
        self,
        op: str,
        operands: Mapping[str, View | list[View] | float | int | None],
        /,
        *,
        engine: Engine | None = None,
        **attributes: AttributeValue,
    ) -> None:
        declaration = TABLE[op]
        forms, tensors, offsets, immediates = [], [], [], []
        for parameter in declaration.tensor_parameters:
            value = operands.get(parameter.name)
            if value is None and isinstance(parameter.default, int | float):
                value = parameter.default
            if value is None:
                continue
            if isinstance(value, list):
                for number, view in enumerate(value):
                    role = f"{parameter.name}{number}"
                    forms.append(Operand(role, view.memory, view.dtype, view.pattern))
                    tensors.append(view.tensor)
                    offsets.append(view.offset)
            elif isinstance(value, View):
                forms.append(Operand(parameter.name, value.memory, value.dtype, value.pattern))
                tensors.append(value.tensor)
                offsets.append(value.offset)
            else:
                dtype = DType.FLOAT32 if isinstance(value, float) else DType.INT32
                forms.append(Operand(parameter.name, None, dtype, SCALAR_PATTERN))
                immediates.append(value)
        values = tuple(
            (p.name, attributes.pop(p.name, p.default)) for p in declaration.attribute_parameters
        )
        assert not attributes
        signature = Signature(op, values, engine, tuple(forms))  # type: ignore[arg-type]
        if signature not in self.signatures:
            self.signatures.append(signature)
        index = self.signatures.index(signature)
        self.body.append(Instruction(index, tuple(tensors), tuple(offsets), tuple(immediates), 0))

    def load(self, name: str, array: Array, dtype: DType | None = None) -> View:
        """An argument copied to an SBUF tile of its shape."""
        source = self.argument(name, array, dtype)
        tile = self.tile(array.shape, source.dtype)
        self.add("dma_copy", {"dst": tile, "src": source})
        return tile

    def store(self, view: View) -> None:
        """Return the contents of an on-chip view as a result of its shape."""
        counts = view.pattern.shape
        if view.memory is Memory.PSUM:
            copy = self.tile(counts, view.dtype)
            self.add("tensor_copy", {"dst": copy, "src": view})
            view = copy
        out = self.tile(counts, view.dtype, Memory.SHARED_HBM)
        self.add("dma_copy", {"dst": out, "src": view})
        self.result(out)

    def result(self, view: View) -> None:
        self.results.append(Result(view.tensor, self.tensors[view.tensor].shape))

    def program(self) -> Program:
        return Program(
            dialect=Dialect.CURRENT,
            target=self.target.value,
            kernel="kernel",
            launch=Launch(),
            arguments=tuple(self.arguments),
            results=tuple(self.results),
            tensors=tuple(self.tensors),
            constants=tuple(self.constants),
            registers=(),
            signatures=tuple(self.signatures),
            sites=(Frame("kernel.py", 1),),
            stacks=((0,),),
            bodies=(tuple(self.body),),
        )

    def compile(self) -> Executable:
        program, chip = self.program(), load_chip(self.target)
        assert check_program(program, chip) == []
        return compile_program(program, chip)

    def run(self) -> RunResult:
        return self.compile().run(self.arrays)

    def outputs(self) -> tuple[Array, ...]:
        return self.run().outputs


def simulate(
    op: str,
    out: tuple[tuple[int, ...], DType],
    operands: Mapping[str, Array | float | int | None],
    /,
    *,
    target: Target = Target.TRN2,
    engine: Engine | None = None,
    **attributes: AttributeValue,
) -> Array:
    """Run one instruction on arrays loaded to SBUF; its `dst` as an array."""
    builder = Builder(target)
    views: dict[str, View | float | int | None] = {}
    for role, value in operands.items():
        views[role] = builder.load(role, value) if isinstance(value, np.ndarray) else value
    memory = TABLE[op].parameter("dst").memories
    shape, dtype = out
    place = Memory.SBUF if Memory.SBUF in memory else Memory.PSUM
    views["dst"] = dst = builder.tile(shape, dtype, place)
    builder.add(op, views, engine=engine, **attributes)
    builder.store(dst)
    return builder.outputs()[0]
