"""A NumPy function as a reference.

In its own precision it computes in float32 where the task's dtype is narrower, and rounds once at
the end: NumPy would accumulate in the narrow type, which no engine does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.task.binding import Binding, Call
from nki_agent.task.record import Record
from nki_agent.task.reference import Precision, Results

Array = NDArray[Any]

_MATRIX_RANK = 2
_PRODUCTS = ("matmul", "dot", "inner", "tensordot", "einsum", "vdot", "vecdot")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumpyReference:
    """Runs a NumPy function. `real_dtype` is what its real outputs are stored in."""

    function: Callable[..., object]
    call: Call
    real_dtype: DType | None

    def run(self, inputs: Mapping[str, Array], *, precision: Precision) -> Results:
        """Run on copies of the inputs."""
        values = {b.argument.name: _native(inputs, b, precision) for b in self.call.bindings()}
        with np.errstate(all="ignore"):
            outputs = self.call.run(self.function, values)
        return Results(
            outputs={n: _finish(v, self.real_dtype, precision) for n, v in outputs.items()},
            inputs={
                b.argument.name: _finish(values[b.argument.name], b.argument.dtype, precision)
                for b in self.call.bindings()
                if b.argument.is_updated
            },
        )

    def record(self, inputs: Mapping[str, Array]) -> tuple[Results, Record]:
        """Run in its own precision and note the matmuls; other operations are not followed."""
        record = Record(hidden_shapes=_find_hidden(self.function))
        values = {
            b.argument.name: _native(inputs, b, Precision.OWN).view(_Recording)
            for b in self.call.bindings()
        }
        for value in values.values():
            value.record = record
        with np.errstate(all="ignore"):
            outputs = self.call.run(self.function, values)
        results = Results(
            outputs={n: _finish(v, self.real_dtype, Precision.OWN) for n, v in outputs.items()},
            inputs={
                b.argument.name: _finish(values[b.argument.name], b.argument.dtype, Precision.OWN)
                for b in self.call.bindings()
            },
        )
        largest = max((a.size for a in results.inputs.values()), default=1)
        smallest = min((a.size for a in results.outputs.values()), default=largest)
        # Sums are not followed: an output's element is made of at most its share of an input.
        record.depth = max(record.depth, largest // max(1, smallest))
        return results, record


def _find_hidden(function: Callable[..., object]) -> list[tuple[int, ...]]:
    """Shapes of the file's own arrays that the function names."""
    code = getattr(function, "__code__", None)
    names = () if code is None else code.co_names
    known = getattr(function, "__globals__", {})
    arrays = (known.get(name) for name in names)
    return [a.shape for a in arrays if isinstance(a, np.ndarray) and a.size > 1]


def _finish(value: Any, dtype: DType | None, precision: Precision) -> Array:
    array = np.array(_plain(value))
    if precision is not Precision.DOUBLE and array.dtype.kind == "f" and dtype is not None:
        return array.astype(dtype.numpy_dtype)
    return array


def _native(inputs: Mapping[str, Array], binding: Binding, precision: Precision) -> Array:
    array = inputs[binding.argument.name]
    if binding.argument.dtype.is_float:
        compute = np.float64 if precision is Precision.DOUBLE else np.float32
        native = array.astype(compute)
    else:
        native = array.astype(np.dtype(binding.native_dtype))
    return native.reshape(binding.native_shape)


class _Recording(np.ndarray[Any, Any]):
    """An array that notes the products made with it."""

    record: Record | None = None

    def __array_finalize__(self, obj: Any) -> None:
        self.record = getattr(obj, "record", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, **options: Any) -> Any:
        if ufunc.__name__ in _PRODUCTS and method == "__call__":
            self._note(ufunc.__name__, inputs)
        plain = [_plain(value) for value in inputs]
        if out := options.get("out"):
            options["out"] = tuple(_plain(value) for value in out)
        result = getattr(ufunc, method)(*plain, **options)
        return self._wrap(result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func.__name__ in _PRODUCTS:
            self._note(func.__name__, args)
        return super().__array_function__(func, types, args, kwargs)

    def dot(self, other: Any, out: Any = None) -> Any:
        """The method form, which NumPy does not dispatch."""
        self._note("dot", (self, other))
        return self._wrap(np.dot(_plain(self), _plain(other), out=out))

    def _wrap(self, result: Any) -> Any:
        if isinstance(result, np.ndarray) and not isinstance(result, _Recording):
            wrapped = result.view(_Recording)
            wrapped.record = self.record
            return wrapped
        return result

    def _note(self, name: str, args: Any) -> None:
        if self.record is None:
            return
        depth, macs = _count_product(name, [_plain(a) for a in args])
        dtype = find_dtype(np.result_type(*(a for a in args if isinstance(a, np.ndarray))))
        if macs:
            self.record.add_matmul(dtype or DType.FLOAT32, flops=2 * macs, depth=depth)


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, _Recording) else value


def _count_product(name: str, args: list[Any]) -> tuple[int, int]:
    """Depth of the sum, and multiply-adds, of one product."""
    if name == "einsum" and isinstance(args[0], str):
        return _count_einsum(args[0], args[1:])
    left, right = np.shape(args[0]), np.shape(args[1])
    if not left or not right:
        return 1, 0
    if name in {"matmul", "dot"}:
        depth = left[-1]
        columns = right[-1] if len(right) >= _MATRIX_RANK else 1
        lead = left[:-1]
        if name == "matmul":
            lead = np.broadcast_shapes(left[:-2], right[:-2]) + left[-2:-1]
        elif len(right) > _MATRIX_RANK:
            columns *= math.prod(right[:-2])
        return depth, math.prod(lead) * depth * columns
    if name == "tensordot":
        return _count_tensordot(left, right, args[2] if len(args) > _MATRIX_RANK else 2)
    depth = left[-1]
    if name == "inner":
        return depth, math.prod(left) * math.prod(right[:-1])
    return depth, max(math.prod(left), math.prod(right))


def _count_tensordot(left: tuple[int, ...], right: tuple[int, ...], axes: Any) -> tuple[int, int]:
    if isinstance(axes, int):
        depth = math.prod(left[len(left) - axes :])
    else:
        depth = math.prod(left[axis] for axis in np.atleast_1d(axes[0]))
    return depth, math.prod(left) * math.prod(right) // max(1, depth)


def _count_einsum(subscripts: str, operands: list[Any]) -> tuple[int, int]:
    """Two operands with plain letters; anything else counts as no product."""
    if len(operands) != _MATRIX_RANK or "." in subscripts:
        return 1, 0
    terms, _, output = subscripts.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for term, operand in zip(terms.split(","), operands, strict=True):
        sizes.update(zip(term, np.shape(operand), strict=True))
    depth = math.prod(size for letter, size in sizes.items() if letter not in output)
    return depth, math.prod(sizes.values()) if depth > 1 else 0
