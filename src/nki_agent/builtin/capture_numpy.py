"""A plain NumPy function as a graph.

The function runs once on arrays that hold no data: a subclass of ndarray with strides of zero,
whose ufuncs, functions and methods add nodes instead of computing. What NumPy would do without
asking us gives an array without a node, and using that is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from nki_agent.base.errors import NkiAgentError, TaskError
from nki_agent.builtin.aten import SQUARES, call_rule
from nki_agent.builtin.graph import (
    OTHER_WAYS,
    Graph,
    GraphBuilder,
    Node,
    Op,
    UnsupportedError,
    contiguous_strides,
)
from nki_agent.builtin.pruning import finish
from nki_agent.builtin.rules import Ref, Rules, Value
from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.task.numpy_reference import NumpyReference
from nki_agent.task.task import ShapeSet

Array = NDArray[Any]
_MATRIX_RANK = 2


def capture_numpy(shapes: ShapeSet, reference: NumpyReference) -> Graph:
    """Run the reference on shapes alone.

    Raises:
        UnsupportedError: a function without a rule, or code that needs values.
    """
    builder = GraphBuilder()
    tracer = _Tracer(builder)
    native = {b.argument.name: b.native_shape for b in reference.call.bindings()}
    values: dict[str, Array] = {}
    for argument in shapes.tensors:
        node = builder.input(argument.name, argument.shape, argument.dtype)
        shape = native[argument.name]
        if tuple(shape) != argument.shape:
            node = builder.view(node, shape=tuple(shape), strides=contiguous_strides(shape))
        values[argument.name] = tracer.wrap(node)
    try:
        outputs = reference.call.run(reference.function, values)
    except TaskError as error:
        if tracer.fault is not None:
            raise tracer.fault from error
        why = f"it cannot run without data: {str(error).splitlines()[0]}"
        hint = "avoid branches on values"
        raise UnsupportedError("the reference", why, hint=hint) from error
    found = []
    for output, value in zip(shapes.outputs, outputs.values(), strict=True):
        node = tracer.node_of(value)
        # Rank 0 is stored as one element.
        found.append(builder.cast(node, output.dtype))
    return finish(builder, found)


class _Tracer:
    """What all arrays of one run share."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.rules = Rules(builder)
        self.fault: NkiAgentError | None = None

    def wrap(self, node_id: int) -> _Traced:
        """An array without data that stands for a node."""
        node = self.builder.nodes[node_id]
        dtype = np.dtype(np.float32) if node.dtype.is_float else node.dtype.numpy_dtype
        if node.dtype is DType.BOOL:
            dtype = np.dtype(np.bool_)
        array = np.ndarray.__new__(
            _Traced,
            node.shape,
            dtype,
            buffer=np.zeros(1, np.float64),
            strides=(0,) * len(node.shape),
        )
        array.tracer = self
        array.node = node_id
        return array

    def node_of(self, value: object) -> int:
        """The node of an array or number."""
        if isinstance(value, _Traced):
            if value.tracer is None or value.node is None:
                raise self.refuse("an array", "it comes from a NumPy function without a rule")
            return value.node
        if isinstance(value, bool | int | float | np.generic):
            return self.builder.const(float(value))
        if isinstance(value, np.ndarray) and value.size == 1:
            return self.builder.const(float(value.reshape(())), value.shape)
        raise self.refuse(
            "a constant", f"a {type(value).__name__} is neither an input nor one number"
        )

    def refuse(self, what: str, why: str, hint: str = "") -> UnsupportedError:
        """An error that survives the user's code."""
        self.fault = UnsupportedError(what, why, hint=hint)
        return self.fault

    def ref(self, value: object) -> Value:
        """A value as the rules take it: numbers stay numbers."""
        if isinstance(value, bool | int | float | np.generic):
            return float(value)
        return Ref(self.node_of(value))

    def call(self, name: str, make: Callable[[], tuple[Ref | None, ...]]) -> _Traced:
        """Add the nodes of one call; its first result."""
        self.builder.origin = f"numpy.{name}"
        try:
            made = make()
        except NkiAgentError as error:
            self.fault = error
            raise
        assert made[0] is not None
        return self.wrap(made[0].id)

    def view(self, array: _Traced, name: str, apply: Callable[[Array], Any]) -> _Traced:
        """A view, from what NumPy does to a stand-in with the node's strides."""
        self.builder.origin = f"numpy.{name}"
        node = self.builder.nodes[self.node_of(array)]
        try:
            return self.wrap(self._derive(node, apply))
        except ValueError:
            # The layout cannot be viewed so: store it row by row first.
            stored = self.builder.nodes[self.builder.unary("copy", node.id)]
            return self.wrap(self._derive(stored, apply))

    def _derive(self, node: Node, apply: Callable[[Array], Any]) -> int:
        is_view = node.op is Op.VIEW
        strides = node.strides if is_view else contiguous_strides(node.shape)
        # One byte an element, so that strides count elements; nothing is ever read.
        seed = np.zeros(1, np.int8)
        shadow = as_strided(seed, node.shape, strides)
        made = apply(shadow)
        if not isinstance(made, np.ndarray):
            raise self.refuse("an index", "single elements of an array have no array")
        shift = made.__array_interface__["data"][0] - seed.__array_interface__["data"][0]
        return self.builder.view(
            node.inputs[0] if is_view else node.id,
            shape=made.shape,
            strides=made.strides,
            offset=node.offset + shift,
        )


class _Traced(np.ndarray[Any, Any]):
    """An array that stands for a node."""

    tracer: _Tracer | None = None
    node: int | None = None

    def __array_finalize__(self, obj: Any) -> None:
        self.tracer = getattr(obj, "tracer", None)
        self.node = None

    def _tracer(self) -> _Tracer:
        assert self.tracer is not None
        return self.tracer

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, **options: Any) -> Any:
        tracer = self._tracer()
        name = ufunc.__name__
        out = options.pop("out", None)
        if method == "reduce":
            result = _FUNCTIONS[_REDUCED.get(name, name)](tracer, inputs[0], **options)
        elif name == "matmul":
            result = _matmul(tracer, *inputs)
        elif name == "positive":
            result = _same(tracer, *inputs)
        elif method == "__call__" and name in _UFUNCS:
            refs = [tracer.ref(value) for value in inputs]
            result = tracer.call(name, lambda: call_rule(tracer.rules, _UFUNCS[name], *refs))
        else:
            raise tracer.refuse(f"numpy.{name}", "there is no rule for it", OTHER_WAYS)
        if out is None:
            return result
        stored = tracer.builder.nodes[out[0].node].dtype
        out[0].node = tracer.builder.cast(tracer.node_of(result), stored)
        return out[0]

    def __array_function__(self, func: Any, _types: Any, args: Any, kwargs: Any) -> Any:
        tracer = self._tracer()
        name = func.__name__
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](tracer, *args, **kwargs)
        raise tracer.refuse(f"numpy.{name}", "there is no rule for it", OTHER_WAYS)

    # -- methods, which NumPy does not dispatch ---------------------------------------------------
    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        tracer = self._tracer()
        wanted = find_dtype(dtype)
        if dtype in (float, np.float64) or wanted is None or wanted.is_float:
            # Widening is free: everything is computed in float32.
            return tracer.wrap(tracer.node_of(self))
        return tracer.wrap(tracer.builder.cast(tracer.node_of(self), wanted))

    def reshape(self, *shape: Any, **_: Any) -> Any:
        wanted = shape[0] if len(shape) == 1 else shape
        return _reshape(self._tracer(), self, wanted)

    def transpose(self, *axes: Any) -> Any:
        wanted = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        return self._tracer().view(self, "transpose", lambda a: a.transpose(*wanted))

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        return self._tracer().view(self, "transpose", lambda a: a.T)

    def __getitem__(self, key: Any) -> Any:
        tracer = self._tracer()
        keys = key if isinstance(key, tuple) else (key,)
        plain = (int, slice, np.integer, type(None), type(Ellipsis))
        if not all(isinstance(k, plain) for k in keys):
            raise tracer.refuse(
                "an index", "only integers and slices are covered", "use `np.where`"
            )
        if any(isinstance(k, slice) and k.step is not None and k.step < 0 for k in keys):
            raise tracer.refuse("a slice", "negative steps are not covered")
        whole = keys if Ellipsis in keys else (*keys, Ellipsis)
        return tracer.view(self, "getitem", lambda a: a[whole])

    def __setitem__(self, key: Any, value: Any) -> None:
        raise self._tracer().refuse(
            "an assignment", "writing into a part of an array is not covered", "use `np.where`"
        )

    def _no_value(self, *_: Any) -> Any:
        raise self._tracer().refuse(
            "the reference", "it needs values of an array", "use `np.where` in place of branches"
        )

    __bool__ = __float__ = __int__ = __index__ = _no_value


def _method(name: str) -> Callable[..., Any]:
    """An ndarray method that does what NumPy's function of this name does."""

    def call(self: _Traced, *args: Any, **options: Any) -> Any:
        return _FUNCTIONS[name](self._tracer(), self, *args, **options)

    return call


def _rank(value: Any) -> int:
    return int(getattr(value, "ndim", 0))


def _axes(axis: Any, rank: int) -> list[int]:
    if axis is None:
        return list(range(rank))
    return [int(axis)] if isinstance(axis, int | np.integer) else [int(a) for a in axis]


def _reduce(
    tracer: _Tracer, name: str, array: Any, axis: Any = None, *_: Any, **options: Any
) -> Any:
    ref = Ref(tracer.node_of(array))
    keep = bool(options.get("keepdims", False))
    axes = _axes(axis, _rank(array))
    rules = tracer.rules
    ddof = float(options.get("ddof", 0))
    if name in _REDUCE_OPS:
        function = _REDUCE_OPS[name]
        return tracer.call(name, lambda: (rules.reduce(function, ref, axes, keepdims=keep),))
    if name in ("var", "std"):
        return tracer.call(name, lambda: call_rule(rules, name, ref, axes, ddof, keep))
    return tracer.call(name, lambda: (rules.mean(ref, axes, keepdims=keep),))


def _dot(tracer: _Tracer, first: Any, second: Any, *_: Any) -> Any:
    if _rank(second) > _MATRIX_RANK:
        raise tracer.refuse("numpy.dot", "only matrices are covered", "use `@`")
    return _matmul(tracer, first, second)


def _matmul(tracer: _Tracer, first: Any, second: Any) -> Any:
    if min(_rank(first), _rank(second)) < _MATRIX_RANK:
        raise tracer.refuse(
            "numpy.matmul", "vectors are not covered", "give both operands rank 2 or more"
        )
    pair = Ref(tracer.node_of(first)), Ref(tracer.node_of(second))
    return tracer.call("matmul", lambda: (tracer.rules.matmul(*pair),))


def _clip(tracer: _Tracer, array: Any, *bounds: Any, **options: Any) -> Any:
    low, high, *_ = (*bounds, None, None)
    given = options.get("min", low), options.get("max", high)
    pair = [None if bound is None else tracer.ref(bound) for bound in given]
    return tracer.call("clip", lambda: (tracer.rules.clamp(tracer.ref(array), *pair),))


def _where(tracer: _Tracer, condition: Any, first: Any, second: Any) -> Any:
    mask = Ref(tracer.node_of(condition))
    chosen = tracer.ref(first), tracer.ref(second)
    return tracer.call("where", lambda: (tracer.rules.where(mask, *chosen),))


def _reshape(tracer: _Tracer, array: Any, shape: Any, *_: Any, **__: Any) -> Any:
    return tracer.view(array, "reshape", lambda a: np.reshape(a, shape, copy=False))


def _norm(tracer: _Tracer, array: Any, *given: Any, **options: Any) -> Any:
    order, axis, *_ = (*given, None, None)
    order = options.get("ord", order)
    axes = _axes(options.get("axis", axis), _rank(array))
    ref, keep = Ref(tracer.node_of(array)), bool(options.get("keepdims", False))
    wanted = SQUARES if order is None else order
    return tracer.call(
        "norm", lambda: call_rule(tracer.rules, "linalg_vector_norm", ref, wanted, axes, keep)
    )


def _filled(value: float) -> Callable[..., Any]:
    def make(tracer: _Tracer, array: Any, fill: float | None = None, **_: Any) -> Any:
        number = value if fill is None else float(fill)
        return tracer.wrap(tracer.builder.const(number, array.shape))

    return make


def _reduction(name: str) -> Callable[..., Any]:
    return lambda tracer, array, *args, **options: _reduce(tracer, name, array, *args, **options)


def _viewed(name: str) -> Callable[..., Any]:
    """A function that NumPy itself can apply to the stand-in: it reads no data."""
    apply = getattr(np, name)

    def view(tracer: _Tracer, array: Any, *args: Any, **options: Any) -> Any:
        return tracer.view(array, name, lambda a: apply(a, *args, **options))

    return view


def _flattened(tracer: _Tracer, array: Any, *_: Any, **__: Any) -> Any:
    return _reshape(tracer, array, (-1,))


def _same(tracer: _Tracer, array: Any, *_: Any, **__: Any) -> Any:
    return tracer.wrap(tracer.node_of(array))


_REDUCED = {"add": "sum", "maximum": "amax", "minimum": "amin", "multiply": "prod"}
_REDUCE_OPS = {"sum": "add", "amax": "maximum", "amin": "minimum", "prod": "multiply"}
_UFUNCS = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "square": "square", "sign": "sign",
    "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil", "reciprocal": "reciprocal",
    "negative": "neg", "absolute": "abs", "fabs": "abs", "rint": "round", "add": "add",
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "power": "pow",
    "float_power": "pow", "maximum": "maximum", "minimum": "minimum", "fmax": "fmax",
    "fmin": "fmin", "greater": "gt", "less": "lt", "equal": "eq", "greater_equal": "ge",
    "less_equal": "le", "not_equal": "ne", "logical_and": "logical_and", "log1p": "log1p",
    "logical_or": "logical_or", "logical_not": "logical_not", "expm1": "expm1", "exp2": "exp2",
    "log2": "log2", "log10": "log10", "sinh": "sinh", "cosh": "cosh",
}  # fmt: skip
"""NumPy's ufuncs by the ATen operator that means the same."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _reduction(name) for name in ("sum", "mean", "amax", "amin", "prod", "var", "std")},
    "max": _reduction("amax"),
    "min": _reduction("amin"),
    **{name: _viewed(name) for name in ("swapaxes", "moveaxis", "expand_dims", "squeeze")},
    "transpose": _viewed("transpose"),
    "broadcast_to": _viewed("broadcast_to"),
    "dot": _dot,
    "where": _where,
    "clip": _clip,
    "reshape": _reshape,
    "ravel": _flattened,
    "flatten": _flattened,
    "norm": _norm,
    "copy": _same,
    "zeros_like": _filled(0.0),
    "ones_like": _filled(1.0),
    "full_like": _filled(0.0),
    "ndim": lambda _, array: array.ndim,
    "shape": lambda _, array: array.shape,
}
_METHODS = ("sum", "mean", "max", "min", "prod", "var", "std", "dot", "clip", "copy")
for _name in (*_METHODS, "swapaxes", "squeeze", "ravel", "flatten"):
    setattr(_Traced, _name, _method(_name))
