"""A PyTorch module or function as a graph. Needs PyTorch.

The code runs once on tensors without data ("meta"), each operator is seen below autograd, where
names are few and fixed, and becomes nodes. Law: nothing of the user's module is changed, and code
that asks a tensor for its values is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as nnf
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from nki_agent.base.errors import NkiAgentError, TaskError
from nki_agent.builtin.aten import ATEN, call_rule
from nki_agent.builtin.graph import (
    OTHER_WAYS,
    Graph,
    GraphBuilder,
    Node,
    Op,
    UnsupportedError,
    contiguous_strides,
)
from nki_agent.builtin.indexing import product_by_row
from nki_agent.builtin.overwrites import overwrite
from nki_agent.builtin.pruning import finish
from nki_agent.builtin.rules import Agreed, Ref, Rules
from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.task.task import ShapeSet
from nki_agent.task.torch_reference import TorchReference

_ALIASES = frozenset(
    {"alias", "detach", "lift_fresh", "lift", "contiguous", "_to_copy", "to", "clone"}
)
_VIEWS = frozenset(
    {"view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "unsqueeze"}
    | {"squeeze", "select", "slice", "unbind", "split", "split_with_sizes", "narrow", "chunk"}
    | {"unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"}
    | {"movedim", "swapaxes", "flatten", "unflatten", "numpy_T", "diagonal"}
)
_FILLS: dict[str, float] = {
    "zeros": 0.0, "ones": 1.0, "zeros_like": 0.0, "ones_like": 1.0, "new_zeros": 0.0,
    "new_ones": 1.0, "zero": 0.0,
}  # fmt: skip
_VALUE_FILLS = {"fill": 1, "full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}
_KEEPING = frozenset(
    {"sigmoid", "tanh", "relu", "silu", "exp", "neg", "sqrt", "rsqrt", "abs"}
    | {"add", "sub", "mul", "div", "maximum", "minimum"}
)
"""Elementwise functions of real tensors."""
_STORAGE_OPTIONS = frozenset(
    {"dtype", "device", "layout", "pin_memory", "memory_format", "out", "non_blocking"}
)
"""Options that say how a result is stored; its dtype is read from the result."""
_HINTS = {
    "convolution": "convolutions come with a later version",
    "arange": "pass the positions as an input",
    "_local_scalar_dense": "control flow on values cannot be traced; use `torch.where`",
}


def capture_torch(
    shapes: ShapeSet, reference: TorchReference, *, agreed: Agreed, keeps_views: bool = False
) -> Graph:
    """Run the reference on shapes alone.

    Raises:
        UnsupportedError: an operator without a rule.
        TaskError: the user's code raised on tensors without data.
    """
    builder = GraphBuilder(keeps_views=keeps_views)
    tracer = _Tracer(Rules(builder, agreed), float8=_float8_of(shapes))
    native = {b.argument.name: (b.native_shape, b.native_dtype) for b in reference.call.bindings()}
    native |= {
        w.argument.name: (w.native_shape, str(w.tensor.dtype).removeprefix("torch."))
        for w in reference.weights
    }
    proxies: dict[str, torch.Tensor] = {}
    for argument in shapes.tensors:
        shape, dtype = native[argument.name]
        stored = argument.dtype.value if argument.dtype.is_float else dtype
        proxy = torch.empty(shape, dtype=_torch_dtype(stored), device="meta")
        node = builder.input(argument.name, argument.shape, argument.dtype)
        if tuple(shape) != argument.shape:
            node = builder.view(node, shape=tuple(shape), strides=contiguous_strides(shape))
        tracer.bind(proxy, node)
        proxies[argument.name] = proxy
    for weight in reference.weights:
        if weight.argument.name not in proxies:
            continue  # it is no argument: who reads it is told so
        tracer.replace(weight.tensor, proxies[weight.argument.name])
    values = {b.argument.name: proxies[b.argument.name] for b in reference.call.bindings()}
    with _quiet(), torch.device("meta"), _Products(tracer), tracer:
        outputs = _run(reference, values, tracer)
    found = [_output(tracer, name, value) for name, value in outputs.items()]
    found += [_updated(tracer, proxies[a.name], a.shape) for a in shapes.updates]
    return finish(builder, found)


def _run(
    reference: TorchReference, values: dict[str, torch.Tensor], tracer: _Tracer
) -> dict[str, Any]:
    try:
        return reference.call.run(reference.entry, values)
    except TaskError as error:
        if tracer.fault is not None:
            raise tracer.fault from error
        raise UnsupportedError(
            "the reference",
            f"it cannot run without data: {str(error).splitlines()[0]}",
            hint="avoid `.item()` and branches on values",
        ) from error


def _output(tracer: _Tracer, name: str, value: Any) -> int:
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(name, f"an output is a {type(value).__name__}, not a tensor")
    return tracer.find(tracer.proxy(value), name)


def _updated(tracer: _Tracer, proxy: torch.Tensor, shape: tuple[int, ...]) -> int:
    """What an argument holds in the end, in the shape that the kernel gets it in."""
    node = tracer.find(proxy, "an update")
    if tuple(proxy.shape) == shape:
        return node
    stored = tracer.builder.unary("copy", node)
    return tracer.builder.view(stored, shape=shape, strides=contiguous_strides(shape))


def _torch_dtype(name: str) -> torch.dtype:
    # PyTorch's one e4m3 has the chip's codes for all that the chip's can hold.
    names = {"bool_": "bool", DType.FLOAT8_E4M3.value: DType.FLOAT8_E4M3FN.value}
    found = getattr(torch, names.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise UnsupportedError(name, "PyTorch has no such dtype")
    return found


def _float8_of(shapes: ShapeSet) -> DType:
    """What PyTorch's e4m3 is on the chip: the one with 240 as its largest, if the task has it."""
    dtypes = {t.dtype for t in shapes.tensors} | {o.dtype for o in shapes.outputs}
    is_ocp = DType.FLOAT8_E4M3FN in dtypes and DType.FLOAT8_E4M3 not in dtypes
    return DType.FLOAT8_E4M3FN if is_ocp else DType.FLOAT8_E4M3


def _dtype_of(tensor: torch.Tensor, origin: str) -> DType:
    name = str(tensor.dtype).removeprefix("torch.")
    found = find_dtype({"int64": "int32"}.get(name, name))
    if found is None:
        raise UnsupportedError(
            origin,
            f"its result is {name}, which the chip does not have",
            hint="compute in float32, or use another `--model`",
        )
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)


class _Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records each operator while it is active."""

    def __init__(self, rules: Rules, float8: DType = DType.FLOAT8_E4M3) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.builder = rules.builder
        self.float8 = float8
        self.rules = rules
        self.fault: NkiAgentError | None = None
        self.is_paused = False
        self._nodes: dict[int, int] = {}
        self._proxies: dict[int, torch.Tensor] = {}
        self._alive: list[torch.Tensor] = []
        """Keeps every tensor, so that an `id` is never used twice."""
        self._bound_at: dict[int, int] = {}
        self._written_at: dict[int, int] = {}

    def bind(self, tensor: torch.Tensor, node: int) -> None:
        """This tensor is this node from now on."""
        self._alive.append(tensor)
        self._nodes[id(tensor)] = node
        self._bound_at[id(tensor)] = len(self._alive)

    def _write(self, tensor: torch.Tensor, node: int, origin: str) -> None:
        """This tensor holds this node's value from now on, and what shares its memory sees it."""
        whole = tensor if tensor._base is None else tensor._base
        if whole is not tensor:
            made = overwrite(
                self.rules,
                Ref(self.find(whole, origin)),
                Ref(node),
                strides=tuple(tensor.stride()),
                offset=int(tensor.storage_offset()),
                origin=origin,
            )
            self.bind(whole, made.id)
        self._written_at[id(whole)] = len(self._alive)
        self.bind(tensor, node)

    def _refresh(self, tensor: torch.Tensor, origin: str) -> None:
        """Look again at a view whose memory was written after it was taken."""
        whole = tensor._base
        if whole is None or self._bound_at[id(tensor)] > self._written_at.get(id(whole), 0):
            return
        if not whole.is_contiguous():
            raise UnsupportedError(
                origin,
                "it reads a view of a tensor that was written in place after the view was taken",
                hint="take the view again, or use the form without `_`",
            )
        node = self.builder.nodes[self._nodes[id(whole)]]
        stored = self.builder.unary("copy", node.id) if node.op is Op.VIEW else node.id
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        offset = int(tensor.storage_offset())
        self.bind(tensor, self.builder.view(stored, shape=shape, strides=strides, offset=offset))

    def replace(self, real: torch.Tensor, proxy: torch.Tensor) -> None:
        """Stand in for a weight of the module."""
        self._alive.append(real)
        self._proxies[id(real)] = proxy

    def proxy(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor without data that stands for this one."""
        return self._proxies.get(id(tensor), tensor)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Operators run without being recorded: the caller makes the node."""
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False

    def stand_in(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor without data for any tensor that the reference may pass."""
        tensor = self.proxy(tensor)
        if id(tensor) not in self._nodes:
            self.bind(tensor, self.find(tensor, "matmul"))
        return self._as_meta(tensor)

    def find(self, tensor: torch.Tensor, origin: str) -> int:
        """The node of a tensor; a constant of the user's file is taken if it is one number."""
        if id(tensor) in self._nodes:
            self._refresh(tensor, origin)
            return self._nodes[id(tensor)]
        if tensor.device.type != "meta" and tensor.numel() == 1:
            return self.builder.const(float(tensor), tuple(tensor.shape), _dtype_of(tensor, origin))
        raise UnsupportedError(
            origin,
            f"a constant of shape {list(tensor.shape)} is neither an input nor a weight",
            hint="make it an input, or register it as a buffer",
        )

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.is_paused or self._is_of_numbers((args, kwargs)):
            return func(*args, **(kwargs or {}))
        try:
            return self._trace(func, args, kwargs or {})
        except NkiAgentError as error:
            self.fault = error
            raise

    def _is_of_numbers(self, value: Any) -> bool:
        """Whether all tensors are single numbers of the file that no value depends on."""
        found = list(_tensors(value))
        return bool(found) and all(
            t.device.type == "cpu" and t.numel() == 1 and id(self.proxy(t)) not in self._nodes
            for t in found
        )

    def _trace(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = func._schema.name.removeprefix("aten::")
        origin = f"aten.{name}"
        self.builder.origin = origin
        args, kwargs = _map(args, self.proxy), _map(kwargs, self.proxy)
        for tensor in _tensors((args, kwargs)):
            if id(tensor) not in self._nodes:
                self.bind(tensor, self.find(tensor, origin))
            self._refresh(tensor, origin)
        args, kwargs = _map(args, self._as_meta), _map(kwargs, self._as_meta)
        in_place = name.endswith("_") and not name.startswith("__")
        name = name.rstrip("_") if in_place else name
        result = args[0] if in_place else None
        if not _keeps_form(name, args, kwargs):
            result = func(*args, **kwargs)
        elif not in_place:
            result = torch.empty_like(args[0])
        nodes = self._nodes_of(name, func, args, kwargs, result)
        for tensor, node in zip(_tensors(result), nodes, strict=False):
            if node is not None:
                bind = partial(self._write, origin=origin) if in_place else self.bind
                bind(tensor, self._stored(node, tensor, origin))
        return result

    def _as_meta(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "meta":
            return tensor
        proxy = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
        self.bind(proxy, self._nodes[id(tensor)])
        return proxy

    def _stored(self, node: int, tensor: torch.Tensor, origin: str) -> int:
        """The node with the dtype that the reference stores."""
        dtype = _dtype_of(tensor, origin)
        return self.builder.cast(node, self.float8 if dtype is DType.FLOAT8_E4M3FN else dtype)

    def _nodes_of(
        self, name: str, func: Any, args: Any, kwargs: dict[str, Any], result: Any
    ) -> Sequence[int | None]:
        if name == "empty" and result.numel() == 0:
            return []  # what batch_norm reserves for a backward pass
        is_number = not any(isinstance(a, torch.Tensor) for a in args[1:])
        if is_number and (name in _FILLS or name in _VALUE_FILLS):
            return self._fill(name, args, kwargs, result)
        if name in _ALIASES:
            return [self._nodes[id(args[0])]]
        if name == "copy" or (name == "fill" and isinstance(args[1], torch.Tensor)):
            return [self._broadcast(self._nodes[id(args[1])], tuple(args[0].shape))]
        if name in _VIEWS:
            return self._view(func, args, kwargs)
        if name not in ATEN:
            hint = _HINTS.get(name, OTHER_WAYS)
            raise UnsupportedError(f"aten.{name}", "there is no rule for it", hint=hint)
        options = {k: _map(v, self._ref) for k, v in kwargs.items() if k not in _STORAGE_OPTIONS}
        made = call_rule(self.rules, name, *_map(args, self._ref), **options)
        return [None if ref is None else ref.id for ref in made]

    def _ref(self, tensor: torch.Tensor) -> Ref:
        return Ref(self._nodes[id(tensor)])

    def _fill(self, name: str, args: Any, kwargs: Any, result: torch.Tensor) -> list[int | None]:
        if name in _FILLS:
            value = _FILLS[name]
        else:
            position = _VALUE_FILLS[name]
            value = args[position] if len(args) > position else kwargs["fill_value"]
        return [self.builder.const(float(value), tuple(result.shape), _dtype_of(result, name))]

    def _broadcast(self, node_id: int, shape: tuple[int, ...]) -> int:
        node = self.builder.nodes[node_id]
        return node_id if node.shape == shape else self._derive(node, lambda t: t.expand(shape))[0]

    def _view(self, func: Any, args: Any, kwargs: dict[str, Any]) -> list[int]:
        node = self.builder.nodes[self._nodes[id(args[0])]]

        def apply(shadow: torch.Tensor) -> Any:
            return func(shadow, *args[1:], **kwargs)

        try:
            return self._derive(node, apply)
        except RuntimeError:
            # The layout cannot be viewed so: store it row by row first.
            stored = self.builder.unary("copy", node.id)
            return self._derive(self.builder.nodes[stored], apply)

    def _derive(self, node: Node, apply: Callable[[torch.Tensor], Any]) -> list[int]:
        """Apply a view to a stand-in with the node's own strides, and read the new ones."""
        is_view = node.op is Op.VIEW
        base = node.inputs[0] if is_view else node.id
        strides = node.strides if is_view else contiguous_strides(node.shape)
        shadow = torch.empty_strided(node.shape, strides, device="meta")
        return [
            self.builder.view(
                base,
                shape=tuple(tensor.shape),
                strides=tuple(tensor.stride()),
                offset=node.offset + int(tensor.storage_offset()),
            )
            for tensor in _tensors(apply(shadow))
        ]


_MATMULS = frozenset(
    {torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm, torch.Tensor.bmm}
)
_REPEATS = frozenset({torch.repeat_interleave, torch.Tensor.repeat_interleave})
_CONSTANTS = frozenset({torch.tensor, torch.as_tensor})
_MATRIX_RANK = 2
HEADED_RANK = 3
"""Masks of this rank or more have an axis of heads."""


class _Products(TorchFunctionMode):
    """Sees products and attention before PyTorch folds their axes or chooses a form by device."""

    def __init__(self, tracer: _Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # The module's own weights may hold another dtype from an earlier run.
        args = _map(args, self._tracer.proxy)
        kwargs = _map(kwargs or {}, self._tracer.proxy)
        if func is nnf.scaled_dot_product_attention:
            return self._attend(*args, **kwargs)
        if func in (nnf.linear, nnf.max_pool1d, nnf.instance_norm):
            # PyTorch's own name of what these call `x`.
            named = {"x" if k == "input" else k: v for k, v in kwargs.items()}
            own: dict[Any, Callable[..., torch.Tensor]] = {
                nnf.linear: self._linear,
                nnf.max_pool1d: _max_pool1d,
                nnf.instance_norm: _instance_norm,
            }
            return own[func](*args, **named)
        if func in _REPEATS and len(args) + len(kwargs) > 1 and self._is_even(*args, **kwargs):
            return self._repeat(*args, **kwargs)
        if func in _CONSTANTS:
            # Without data a constant would lose its value.
            kwargs["device"] = "cpu"
        if func in _MATMULS and len(args) == _MATRIX_RANK:
            first, second = (self._tracer.stand_in(a) for a in args)
            if min(first.dim(), second.dim()) >= _MATRIX_RANK:
                return self._multiply(first, second)
        return func(*args, **kwargs)

    @staticmethod
    def _is_even(_: Any, repeats: Any = None, dim: int | None = None, **__: Any) -> bool:
        return isinstance(repeats, int) and dim is not None

    def _repeat(self, x: torch.Tensor, repeats: int, dim: int, **_: Any) -> torch.Tensor:
        """Each element of an axis so many times, stored: the same nodes at every size."""
        tracer, axis = self._tracer, dim % x.dim()
        sizes = [-1] * (x.dim() + 1)
        sizes[axis + 1] = repeats
        spread = self._tracer.stand_in(x).unsqueeze(axis + 1).expand(sizes)
        stored = tracer.builder.unary("copy", tracer.find(spread, "repeat_interleave"))
        with tracer.paused():
            result = spread.flatten(axis, axis + 1).clone()
        shape = tuple(result.shape)
        view = tracer.builder.view(stored, shape=shape, strides=contiguous_strides(shape))
        tracer.bind(result, view)
        return result

    def _multiply(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        tracer = self._tracer
        tracer.builder.origin = "aten.matmul"
        with tracer.paused():
            result = first @ second
        pair = tracer.find(first, "matmul"), tracer.find(second, "matmul")
        by_row = product_by_row(tracer.rules, Ref(pair[0]), Ref(pair[1]))
        if by_row is not None:
            tracer.bind(result, by_row.id)
            return result
        tracer.bind(result, tracer.builder.matmul(*pair, _dtype_of(result, "matmul")))
        return result

    def _linear(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        x, weight = self._tracer.stand_in(x), self._tracer.stand_in(weight)
        if x.dim() < _MATRIX_RANK:
            return nnf.linear(x, weight, bias)
        product = self._multiply(x, weight.t())
        return product if bias is None else product + bias

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        *rest: float,
        **options: Any,
    ) -> torch.Tensor:
        dropout_p, is_causal, *_ = (*rest, 0.0, False)[: max(2, len(rest))]
        is_causal = options.get("is_causal", is_causal)
        scale = options.get("scale")
        if options.get("dropout_p", dropout_p):
            raise UnsupportedError("scaled_dot_product_attention", "dropout is not covered")
        if options.pop("enable_gqa", False):
            return self._attend_in_groups(query, key, value, attn_mask, *rest, **options)
        scores = self._multiply(query, key.transpose(-2, -1)) * (
            query.shape[-1] ** -0.5 if scale is None else scale
        )
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if attn_mask is not None:
            is_bool = attn_mask.dtype is torch.bool
            scores = (
                scores.masked_fill(~attn_mask, float("-inf")) if is_bool else scores + attn_mask
            )
        weights = torch.softmax(scores, -1)
        return self._multiply(weights, value)

    def _attend_in_groups(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        *rest: float,
        **options: Any,
    ) -> torch.Tensor:
        """Heads that share keys and values lie side by side, which are read by all of them."""
        groups = key.shape[-3]
        query = _split_heads(query, groups)
        is_shared = mask is None or mask.dim() < HEADED_RANK or mask.shape[-3] == 1
        if query.shape[-2] == 1 and is_shared:
            # With one query each, the heads of a group are the rows of one product.
            result = self._attend(query.squeeze(-2), key, value, mask, *rest, **options)
            return result.flatten(-3, -2).unsqueeze(-2)
        if mask is not None and mask.dim() >= HEADED_RANK:
            mask = mask.unsqueeze(-3) if is_shared else _split_heads(mask, groups)
        pair = key.unsqueeze(-3), value.unsqueeze(-3)
        return self._attend(query, *pair, mask, *rest, **options).flatten(-4, -3)


def _max_pool1d(  # noqa: PLR0913, PLR0917 - PyTorch's own arguments
    x: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,  # noqa: FBT001, FBT002
    return_indices: bool = False,  # noqa: FBT001, FBT002
) -> torch.Tensor:
    """As an image of one line: PyTorch's own form makes the places too, which nobody reads."""
    if return_indices:
        raise UnsupportedError("max_pool1d", "the places of its values are not covered")
    window = [
        size if isinstance(size, int) else size[0] for size in (kernel_size, padding, dilation)
    ]
    step = window[0] if not stride else stride if isinstance(stride, int) else stride[0]
    pairs = (1, window[0]), (1, step), (0, window[1]), (1, window[2])
    return nnf.max_pool2d(x.unsqueeze(-2), *pairs, ceil_mode=ceil_mode).squeeze(-2)


def _instance_norm(  # noqa: PLR0913, PLR0917 - PyTorch's own arguments
    x: torch.Tensor,
    running_mean: torch.Tensor | None = None,
    running_var: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    use_input_stats: bool = True,  # noqa: FBT001, FBT002
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """By each channel's own pixels, which are a group of one channel."""
    del momentum  # Of statistics that nobody reads.
    if not use_input_stats:
        return nnf.batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    return nnf.group_norm(x, x.shape[1], weight, bias, eps)


def _split_heads(tensor: torch.Tensor, groups: int) -> torch.Tensor:
    """Heads [..., H, M, N] as groups of heads [..., G, H / G, M, N]."""
    *lead, heads, rows, cols = tensor.shape
    return tensor.reshape(*lead, groups, heads // groups, rows, cols)


def _keeps_form(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a result is surely stored as each of its operands is.

    PyTorch finds that out for tensors without data too, a thousand times slower.
    """
    if name not in _KEEPING or kwargs or not all(isinstance(a, torch.Tensor) for a in args):
        return False
    forms = {(a.shape, a.dtype, a.stride()) for a in args}
    return len(forms) == 1 and args[0].is_floating_point()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)


def _map(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(_map(item, change) for item in value)
    if isinstance(value, dict):
        return {key: _map(item, change) for key, item in value.items()}
    return value
