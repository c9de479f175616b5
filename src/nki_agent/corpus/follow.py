"""Follows a PyTorch reference without data and writes down what it computes. Needs PyTorch.

Each operation is seen below autograd. Views are no operations: a tensor is where it lies in its
storage, and a storage is a node. What is written in place makes a new node of the storage.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as nnf
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from nki_agent.corpus.composites import COMPOSITES, attend
from nki_agent.corpus.nodes import MOVE, GraphError, Node, Nodes, Operand
from nki_agent.corpus.opaque import describe_options, split_axes
from nki_agent.corpus.pointwise import RULES, Formula, write_pointwise
from nki_agent.corpus.strides import Reading, read_view

META = "meta"


# fmt: off
_SAME = frozenset({"lift", "lift_fresh", "_unsafe_view", "_reshape_alias", "detach", "alias"})
_COPIES = frozenset({"clone", "contiguous", "copy", "_to_copy", "to"})
_FILLS = {
    "zeros": 0.0, "ones": 1.0, "zeros_like": 0.0, "ones_like": 1.0, "new_zeros": 0.0,
    "new_ones": 1.0, "zero": 0.0, "empty": 0.0, "empty_like": 0.0, "new_empty": 0.0,
    "empty_strided": 0.0, "new_empty_strided": 0.0,
}
_VALUE_FILLS = {"fill": 1, "full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}
_REDUCTIONS = {
    "sum": "sum", "amax": "amax", "amin": "amin", "prod": "prod", "any": "any", "all": "all",
    "nansum": "nansum",
}
_CHANCE = ("rand", "bernoulli", "multinomial", "normal", "uniform", "native_dropout", "exponential")
# fmt: on
_POINTWISE = frozenset({*RULES, "bitwise_left_shift", "bitwise_right_shift", "remainder", "fmod"})


class Follower(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes nodes while it is active."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nodes = Nodes()
        self._held: dict[int, int] = {}
        """The node that a storage holds."""
        self._kept: list[torch.Tensor] = []
        """A storage that is freed would give its address to another."""

    @staticmethod
    def _should_skip_dynamo() -> bool:
        """PyTorch would import its compiler to skip it: over a second, for nothing."""
        return False

    def give(self, tensor: torch.Tensor) -> None:
        """An argument of the reference."""
        self._hold(tensor, self.nodes.add_leaf("input", _num_stored(tensor), kind_of(tensor)))

    def read(self, tensor: torch.Tensor) -> int:
        """The node of an output, stored as its axes say."""
        operand = self._operand(tensor)
        return self.nodes.pointwise(MOVE, [operand], dtype=kind_of(tensor))

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name.startswith(_CHANCE):
            raise GraphError(f"`{name}` draws by chance")
        is_view = func.is_view or name in _SAME
        if name == "view" and isinstance(args[1], torch.dtype):
            is_view = False
        in_place = name.endswith("_") and not name.endswith("__")
        base = name[:-1] if in_place else name
        if not in_place and base in COMPOSITES:
            with self:
                return COMPOSITES[base](*args, **kwargs)
        if in_place and base in COMPOSITES:
            with self:
                found = COMPOSITES[base](*args, **kwargs)
                return args[0].copy_(found)
        if not is_view and base not in _POINTWISE and _is_made_of_others(func):
            with self:
                return func.decompose(*args, **kwargs)
        result = func(*args, **kwargs)
        if is_view:
            return self._note_view(args[0], result)
        if "out" in kwargs:
            raise GraphError(f"`{name}` writes to an argument `out`")
        nodes = self._write_nodes(base, func, args, kwargs, result)
        if in_place:
            self._write(args[0], nodes[0])
        else:
            for tensor, node in zip(_tensors(result), nodes, strict=False):
                self._bind(tensor, node)
        return result

    def _note_view(self, source: torch.Tensor, result: Any) -> Any:
        if _key(source) not in self._held:
            self._find(source)
        for tensor in _tensors(result):
            if _key(tensor) not in self._held:
                # A view that PyTorch had to copy.
                node = self.nodes.pointwise(MOVE, [self._operand(source)], dtype=kind_of(source))
                self._bind(tensor, node)
        return result

    # Tensors and storages.

    def _find(self, tensor: torch.Tensor) -> int:
        """The node of a tensor's storage; a number or data of the file where none is known."""
        node = self._held.get(_key(tensor))
        if node is not None:
            return node
        if tensor.device.type != META and tensor.numel() == 1:
            with torch.utils._python_dispatch._disable_current_modes():
                node = self.nodes.add_number(float(tensor.item()))
        else:
            node = self.nodes.add_leaf("data", _num_stored(tensor), kind_of(tensor))
        self._hold(tensor, node)
        return node

    def _hold(self, tensor: torch.Tensor, node: int) -> None:
        self._kept.append(tensor)
        self._held[_key(tensor)] = node

    def _bind(self, tensor: torch.Tensor, node: int) -> None:
        """A new tensor whose elements are a node's in the order of its axes."""
        if not tensor.is_contiguous() and self.nodes.nodes[node].value is None:
            node = self._as_stored(tensor, node)
        self._hold(tensor, node)

    def _as_stored(self, tensor: torch.Tensor, node: int) -> int:
        order = sorted(range(tensor.dim()), key=lambda i: -tensor.stride()[i])
        own = read_view(tensor.shape, _contiguous(tensor.shape), 0)
        moved = Reading(tuple(own.axes[i] for i in order))
        return self.nodes.pointwise(MOVE, [(node, moved)], dtype=kind_of(tensor))

    def _write(self, tensor: torch.Tensor, node: int) -> None:
        """Write a node's elements over those of a tensor."""
        old = self._find(tensor)
        total = _num_stored(tensor)
        order = sorted(range(tensor.dim()), key=lambda i: -tensor.stride()[i])
        if tensor.numel() == total:
            if not tensor.is_contiguous() and self.nodes.nodes[node].value is None:
                node = self._as_stored(tensor, node)
            self._held[_key(tensor)] = node
            return
        if self.nodes.nodes[old].value is not None:
            # What was filled with one number has elements of its own from here on.
            number = self.nodes.nodes[old].value
            old = self.nodes.add(Node(f"filled {number:g}", (), total, kind_of(tensor)))
        region = read_view(tensor.shape, tensor.stride(), int(tensor.storage_offset()))
        value = read_view(tensor.shape, _contiguous(tensor.shape), 0)
        pair = (Reading(tuple(r.axes[i] for i in order), r.offset) for r in (value, region))
        values, places = pair
        found = self.nodes.write(old, self.nodes.read_through((node, values)), places)
        self._held[_key(tensor)] = found

    def _operand(self, tensor: torch.Tensor) -> Operand:
        node = self._find(tensor)
        return node, read_view(tensor.shape, tensor.stride(), int(tensor.storage_offset()))

    def _spread(self, tensor: torch.Tensor, shape: Sequence[int]) -> Operand:
        """A tensor along the axes of a result that it is broadcast to."""
        node, reading = self._operand(tensor)
        lacking = len(shape) - tensor.dim()
        axes = list(((),) * lacking + reading.axes)
        own = (1,) * lacking + tuple(tensor.shape)
        for i, size in enumerate(shape):
            if own[i] == 1 and size != 1:
                axes[i] = ((size, 0),)
        return node, Reading(tuple(axes), reading.offset)

    # Operations.

    def _write_nodes(
        self, name: str, func: Any, args: Any, kwargs: dict[str, Any], result: Any
    ) -> list[int]:
        first = next(_tensors(result), None)
        if first is None:
            raise GraphError(f"`{name}` gives no tensor")
        if first.numel() == 0:
            return [self.nodes.add_number(0.0) for _ in _tensors(result)]
        if (number := _fill_of(name, args, kwargs)) is not None:
            return [self.nodes.add_number(number)]
        if name in _COPIES or name == "fill":
            source = args[1] if name in {"copy", "fill"} else args[0]
            return [self._convert(source, first)]
        if name in _POINTWISE or torch.Tag.pointwise in func.tags:
            return [self._write_pointwise(name, args, kwargs, first)]
        if name in _REDUCTIONS:
            return [self._reduce(_REDUCTIONS[name], func, args, kwargs, first)]
        rule = _PRODUCTS.get(name)
        if rule is not None:
            return [rule(self, *args, dtype=kind_of(first))]
        return self._write_opaque(name, func, args, kwargs, list(_tensors(result)))

    def _convert(self, source: torch.Tensor, result: torch.Tensor) -> int:
        """Another format: nothing where values stay what they are, but for rounding."""
        narrow = _narrowing(source.dtype, result.dtype)
        operand = self._spread(source, result.shape)
        op = MOVE if narrow is None else f"to {narrow}"
        return self.nodes.pointwise(op, [operand], dtype=kind_of(result))

    def _write_pointwise(
        self, name: str, args: Any, kwargs: dict[str, Any], result: torch.Tensor
    ) -> int:
        shape = tuple(result.shape)
        formula = Formula(self.nodes, shape, kind_of(result))
        name = name.strip("_")
        values = [self._value(value, shape) for value in args]
        options = {k: self._value(v, shape) for k, v in kwargs.items() if k not in _STORAGE}
        return write_pointwise(formula, name, values, options)

    def _value(self, value: Any, shape: tuple[int, ...]) -> Any:
        if isinstance(value, torch.Tensor):
            return self._spread(value, shape)
        if isinstance(value, bool | int | float):
            return float(value)
        return value

    def _reduce(
        self, op: str, func: Any, args: Any, kwargs: dict[str, Any], result: torch.Tensor
    ) -> int:
        named = name_arguments(func, args, kwargs)
        source = args[0]
        dims = named.get("dim")
        dims = [dims] if isinstance(dims, int) else dims
        axes = [d % max(1, source.dim()) for d in dims] if dims else range(source.dim())
        return self.nodes.reduce(op, self._operand(source), axes=list(axes), dtype=kind_of(result))

    def matrix(self, tensor: torch.Tensor, *, axes: Sequence[int | None]) -> Operand:
        """A tensor with its axes as [batch, rows, columns]; None where there is none."""
        node, reading = self._operand(tensor)
        return node, Reading(
            tuple(() if i is None else reading.axes[i] for i in axes), reading.offset
        )

    def _write_opaque(
        self, name: str, func: Any, args: Any, kwargs: dict[str, Any], results: list[torch.Tensor]
    ) -> list[int]:
        named = name_arguments(func, args, kwargs)
        name, named = _rename(name, named)
        tensors = list(_tensors(list(named.values())))
        axis = named.get("dim") if isinstance(named.get("dim"), int) else None
        rank = max((t.dim() for t in tensors), default=0)
        place = None if axis is None else axis - rank if axis >= 0 else axis
        operands = []
        for tensor in tensors:
            node, reading = self._operand(tensor)
            operands.append((node, split_axes(reading, place)))
        label = describe_options(name, named, rank=rank)
        return [
            self.nodes.opaque(
                label if len(results) == 1 else f"{label} #{number}",
                operands,
                num_elems=tensor.numel(),
                dtype=kind_of(tensor),
            )
            for number, tensor in enumerate(results)
        ]


_STORAGE = frozenset({"dtype", "device", "layout", "pin_memory", "memory_format", "non_blocking"})
_ROWS, _COLUMNS = (None, 0, 1), (None, 0, 1)


def _mm(f: Follower, left: torch.Tensor, right: torch.Tensor, *_: Any, dtype: str) -> int:
    return f.nodes.contract(f.matrix(left, axes=_ROWS), f.matrix(right, axes=_COLUMNS), dtype=dtype)


def _bmm(f: Follower, left: torch.Tensor, right: torch.Tensor, *_: Any, dtype: str) -> int:
    axes = (0, 1, 2)
    return f.nodes.contract(f.matrix(left, axes=axes), f.matrix(right, axes=axes), dtype=dtype)


def _mv(f: Follower, left: torch.Tensor, right: torch.Tensor, *, dtype: str) -> int:
    return f.nodes.contract(
        f.matrix(left, axes=_ROWS), f.matrix(right, axes=(None, 0, None)), dtype=dtype
    )


def _dot(f: Follower, left: torch.Tensor, right: torch.Tensor, *, dtype: str) -> int:
    pair = f.matrix(left, axes=(None, None, 0)), f.matrix(right, axes=(None, 0, None))
    return f.nodes.contract(*pair, dtype=dtype)


_PRODUCTS: dict[str, Callable[..., int]] = {
    "mm": _mm, "bmm": _bmm, "mv": _mv, "dot": _dot, "vdot": _dot, "_int_mm": _mm,
}  # fmt: skip


class Before(TorchFunctionMode):
    """Sees attention before PyTorch chooses a form of it, and numbers while they have a value."""

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is nnf.scaled_dot_product_attention:
            return attend(*args, **kwargs)
        if func in {torch.tensor, torch.as_tensor}:
            kwargs = {**kwargs, "device": "cpu"}
        return func(*args, **kwargs)


@functools.cache
def _is_made_of_others(func: Any) -> bool:
    """Whether PyTorch would have taken it apart, had it been called from outside."""
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


def name_arguments(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Every argument by its name in the operation's schema."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    for argument in func._schema.arguments:
        given.setdefault(argument.name, argument.default_value)
    return {name: value for name, value in given.items() if name not in _STORAGE}


def _rename(name: str, named: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Three names for picking rows by their numbers."""
    if name == "embedding":
        return "take", {"self": named["weight"], "index": named["indices"], "dim": 0}
    if name == "index_select":
        return "take", named
    if name == "index":
        given = [(i, t) for i, t in enumerate(named["indices"]) if t is not None]
        if len(given) == 1 and given[0][1].dtype not in {torch.bool, torch.uint8}:
            return "take", {"self": named["self"], "index": given[0][1], "dim": given[0][0]}
    return name, named


def _fill_of(name: str, args: Any, kwargs: dict[str, Any]) -> float | None:
    if name in _FILLS:
        return _FILLS[name]
    if name in _VALUE_FILLS:
        place = _VALUE_FILLS[name]
        value = args[place] if len(args) > place else kwargs.get("fill_value")
        return float(value) if isinstance(value, bool | int | float) else None
    return None


def _narrowing(source: torch.dtype, result: torch.dtype) -> str | None:
    """The kind of format that values are rounded to for good; None where they stay."""
    if result.is_floating_point:
        return "float8" if result.itemsize == 1 and source != result else None
    if source.is_floating_point:
        return "bool" if result is torch.bool else "integer"
    return "bool" if result is torch.bool and source is not torch.bool else None


def kind_of(tensor: torch.Tensor) -> str:
    """The dtype's name."""
    return str(tensor.dtype).removeprefix("torch.")


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _num_stored(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.itemsize


def _contiguous(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
