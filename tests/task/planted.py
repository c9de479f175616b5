"""Faults planted in the outputs of real operators, each with the cause that a report must name."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.task.cause import Cause, Context
from nki_agent.task.comparison import Comparison, compare
from nki_agent.task.family import Family
from nki_agent.task.tolerance import ToleranceClass, tolerance_for

Array = NDArray[Any]
Arrays = dict[str, Array]
Reals = NDArray[np.float64]
EPSILON = 1e-5


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def normalise(x: Array, axis: int, epsilon: float = EPSILON) -> Array:
    mean = x.mean(axis=axis, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(x.var(axis=axis, keepdims=True) + epsilon))


def root_mean_square(x: Array, axis: int, epsilon: float = EPSILON) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean(axis=axis, keepdims=True) + epsilon))


def log_softmax(x: Array, axis: int) -> Array:
    top = x.max(axis=axis, keepdims=True)
    return np.asarray(x - top - np.log(np.exp(x - top).sum(axis=axis, keepdims=True)))


def gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


Run = Callable[..., Array]
# Operators by name: over an axis, without one, reductions of one axis, products.
ROWS: dict[str, Run] = {
    "softmax": lambda i, axis=-1: softmax(i["x"], axis),
    "log_softmax": lambda i, axis=-1: log_softmax(i["x"], axis),
    "rms_norm": lambda i, axis=-1: root_mean_square(i["x"], axis) * i["g"],
    "layer_norm": lambda i, axis=-1: normalise(i["x"], axis) * i["g"] + i["b"],
    "layer_norm_plain": lambda i, axis=-1: normalise(i["x"], axis),
    "cumsum": lambda i, axis=-1: i["x"].cumsum(axis=axis),
    "centre": lambda i, axis=-1: i["x"] - i["x"].mean(axis=axis, keepdims=True),
}
ELEMENTWISE: dict[str, Run] = {
    "gelu": lambda i: gelu(i["x"]),
    "sigmoid": lambda i: sigmoid(i["x"]),
    "relu_scaled": lambda i: np.maximum(i["x"], 0) * 1.5,
    "multiply_add": lambda i: i["x"] * i["g"] + i["b"],
    "add_square": lambda i: i["x"] * i["x"] + 0.3 * i["x"],
}
REDUCTIONS: dict[str, Run] = {
    "sum": lambda i, axis=-1: i["x"].sum(axis=axis),
    "mean": lambda i, axis=-1: i["x"].mean(axis=axis),
    "max": lambda i, axis=-1: i["x"].max(axis=axis),
    "square_sum": lambda i, axis=-1: np.square(i["x"]).sum(axis=axis),
    "logsumexp": lambda i, axis=-1: np.log(np.exp(i["x"]).sum(axis=axis)),
}
PRODUCTS: dict[str, Run] = {
    "matmul": lambda i: i["x"] @ i["w"],
    "linear": lambda i: i["x"] @ i["w"] + i["b"],
}
SHAPES = ((133, 301), (2, 65, 96), (2, 8, 14, 14), (300, 40), (1000,))
MORE_SHAPES = ((130, 300), (256, 1024), (5000,), (64, 640), (3, 7, 50, 20))
SQUARES: tuple[tuple[int, ...], ...] = ((130, 130), (96, 96), (2, 64, 64))
PRODUCT_SHAPES = ((130, 300, 200), (256, 512, 300), (70, 130, 96), (128, 128, 128))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A wrong output of one operator."""

    cause: Cause
    kind: str
    operator: str
    expected: Reals
    actual: Reals
    inputs: Arrays = field(repr=False)
    dtype: DType = DType.FLOAT32
    family: Family = Family.STANDARD
    name: ToleranceClass | None = None

    def judge(self) -> Comparison:
        """What the comparison says of it."""
        name = self.name or (
            ToleranceClass.F2 if self.dtype is DType.FLOAT32 else ToleranceClass.B1
        )
        with np.errstate(all="ignore"):
            stored = self.actual.astype(self.dtype.numpy_dtype)
        context = Context(inputs=self.inputs, family=self.family)
        return compare(
            self.expected,
            stored,
            dtype=self.dtype,
            tolerance=tolerance_for(name, self.dtype),
            context=context,
        )


def make_inputs(shape: tuple[int, ...], *, seed: int, dtype: DType) -> Arrays:
    rng = rng_for(seed, "planted", *shape)
    factor, shift = rng.uniform(0.7, 1.4), rng.uniform(-0.25, 0.25)
    arrays = {
        "x": factor * (rng.standard_normal(shape) + shift),
        "g": 1 + 0.2 * rng.standard_normal(shape[-1:]),
        "b": 0.1 * rng.standard_normal(shape[-1:]),
    }
    return {n: a.astype(dtype.numpy_dtype).astype(np.float32) for n, a in arrays.items()}


def wide(inputs: Arrays) -> Arrays:
    return {n: a.astype(np.float64) for n, a in inputs.items()}


def make_product_inputs(shape: tuple[int, int, int], *, seed: int, dtype: DType) -> Arrays:
    rows, depth, columns = shape
    rng = rng_for(seed, "planted product", *shape)
    arrays = {
        "x": rng.standard_normal((rows, depth)) + rng.uniform(-0.25, 0.25),
        "w": rng.standard_normal((depth, columns)) / math.sqrt(depth),
        "b": 0.1 * rng.standard_normal(columns),
    }
    return {n: a.astype(dtype.numpy_dtype).astype(np.float32) for n, a in arrays.items()}


def round_to(values: Array, dtype: Any = ml_dtypes.bfloat16) -> Array:
    return np.asarray(values.astype(dtype).astype(np.float64))


Change = Callable[[Reals], Reals | None]


def _shift(y: Reals, by: int, axis: int) -> Reals | None:
    return np.roll(y, by, axis=axis) if 2 * by < y.shape[axis] else None


def _shift_filled(y: Reals) -> Reals | None:
    moved = _shift(y, 1, -1)
    if moved is not None:
        moved[..., 0] = 0
    return moved


def _swap(y: Reals, tile: int, axis: int) -> Reals | None:
    if y.shape[axis] < 3 * tile:
        return None
    view = np.moveaxis(y.copy(), axis, 0)
    view[tile : 2 * tile], view[:tile] = view[:tile].copy(), view[tile : 2 * tile].copy()
    return np.moveaxis(view, 0, axis)


def _repeat(y: Reals, tile: int, axis: int) -> Reals | None:
    if y.shape[axis] < 2 * tile:
        return None
    view = np.moveaxis(y.copy(), axis, 0)
    view[tile : 2 * tile] = view[:tile]
    return np.moveaxis(view, 0, axis)


def _running(y: Reals, tile: int, axis: int) -> Reals | None:
    if y.shape[axis] < 2 * tile:
        return None
    view = np.moveaxis(y.copy(), axis, 0)
    for start in range(tile, view.shape[0], tile):
        size = min(tile, view.shape[0] - start)
        view[start : start + size] += view[start - tile : start - tile + size]
    return np.moveaxis(view, 0, axis)


def _tail(y: Reals, tile: int, axis: int, fill: float) -> Reals | None:
    whole = y.shape[axis] // tile * tile
    if whole in {0, y.shape[axis]}:
        return None
    out = np.moveaxis(y.copy(), axis, 0)
    out[whole:] = fill
    return np.moveaxis(out, 0, axis)


def _hole(y: Reals, fill: float) -> Reals | None:
    size = y.shape[-1] // 4
    if size == 0:
        return None
    out = y.copy()
    out[..., size : 2 * size] = fill
    return out


def _transpose(y: Reals) -> Reals | None:
    if y.ndim == 1:
        return None
    return np.swapaxes(y, -1, -2).reshape(y.shape)


# Changes of an output alone: kind, cause, what it does.
CHANGES: tuple[tuple[str, Cause, Change], ...] = (
    ("shift by 1 of the last axis", Cause.SHIFTED, lambda y: _shift(y, 1, -1)),
    ("shift by 7 of the first axis", Cause.SHIFTED, lambda y: _shift(y, 7, 0)),
    ("shift by 128", Cause.SHIFTED, lambda y: _shift(y, 128, -1)),
    ("shift with a zero edge", Cause.SHIFTED, _shift_filled),
    ("swapped tiles of 16", Cause.SWAPPED_TILES, lambda y: _swap(y, 16, -1)),
    ("swapped tiles of 32 rows", Cause.SWAPPED_TILES, lambda y: _swap(y, 32, 0)),
    ("swapped tiles of 128", Cause.SWAPPED_TILES, lambda y: _swap(y, 128, -1)),
    ("tile written twice", Cause.STALE, lambda y: _repeat(y, 32, 0)),
    ("tile of columns written twice", Cause.STALE, lambda y: _repeat(y, 64, -1)),
    ("accumulator kept over tiles", Cause.STALE, lambda y: _running(y, 64, -1)),
    ("transposed", Cause.PERMUTED, _transpose),
    ("tail of rows unwritten", Cause.MISSING_TAIL, lambda y: _tail(y, 128, 0, np.nan)),
    ("tail of columns unwritten", Cause.MISSING_TAIL, lambda y: _tail(y, 128, -1, np.nan)),
    ("tail of rows zero", Cause.MISSING_TAIL, lambda y: _tail(y, 64, 0, 0.0)),
    ("hole unwritten", Cause.UNWRITTEN, lambda y: _hole(y, np.nan)),
    ("hole of zeros", Cause.UNWRITTEN, lambda y: _hole(y, 0.0)),
    ("never written", Cause.UNWRITTEN, lambda y: np.full_like(y, np.nan)),
    ("constant", Cause.CONSTANT, lambda y: np.full_like(y, 0.7)),
    ("scale", Cause.SCALED, lambda y: y / 8),
    ("sign", Cause.SCALED, lambda y: -y),
    ("offset", Cause.OFFSET, lambda y: y + 0.4 * y.std() + 0.01),
    ("clamped", Cause.CLAMP, lambda y: np.minimum(y, np.quantile(y, 0.9))),
    ("overflow", Cause.OVERFLOW, lambda y: np.where(y > np.quantile(y, 0.97), np.inf, y)),
)


def plant_changes(
    operator: str, expected: Reals, inputs: Arrays, dtype: DType
) -> Iterator[Planted]:
    for kind, cause, change in CHANGES:
        actual = change(expected)
        if actual is not None:
            yield Planted(
                cause=cause,
                kind=kind,
                operator=operator,
                expected=expected,
                actual=actual,
                inputs=inputs,
                dtype=dtype,
            )


def plant_precision(operator: str, run: Run, inputs: Arrays) -> Iterator[Planted]:
    expected = run(wide(inputs))
    for kind, cause, actual in (
        ("rounded inputs", Cause.LOST_PRECISION, run({n: round_to(a) for n, a in inputs.items()})),
        ("rounded output", Cause.LOST_PRECISION, round_to(expected)),
        ("half output", Cause.LOST_PRECISION, round_to(expected, np.float16)),
        ("cut output", Cause.ROUNDING, _cut_to_bfloat16(expected)),
    ):
        yield Planted(
            cause=cause,
            kind=kind,
            operator=operator,
            expected=expected,
            actual=actual,
            inputs=inputs,
        )
    codes = expected / expected.std() * 20
    yield Planted(
        cause=Cause.ROUNDING,
        kind="codes truncated",
        operator=operator,
        expected=np.rint(codes).astype(np.int32).astype(np.float64),
        actual=np.trunc(codes),
        inputs=inputs,
        dtype=DType.INT32,
        name=ToleranceClass.EX,
    )


def _cut_to_bfloat16(values: Reals) -> Reals:
    bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def plant_axes(operator: str, run: Run, inputs: Arrays, dtype: DType) -> Iterator[Planted]:
    x = wide(inputs)
    expected = run(x)
    for axis in range(x["x"].ndim - 1):
        actual = run(x, axis=axis)
        if actual.shape == expected.shape:
            yield Planted(
                cause=Cause.WRONG_AXIS,
                kind="wrong axis",
                operator=operator,
                expected=expected,
                actual=actual,
                inputs=inputs,
                dtype=dtype,
            )


def plant_terms(operator: str, run: Run, inputs: Arrays, dtype: DType) -> Iterator[Planted]:
    x = wide(inputs)
    for kind, part in (
        ("first tile only", slice(0, 128)),
        ("last tile missing", slice(0, (x["x"].shape[-1] - 1) // 128 * 128)),
        ("last tile only", slice((x["x"].shape[-1] - 1) // 128 * 128, None)),
    ):
        length = len(range(x["x"].shape[-1])[part])
        if length in {0, x["x"].shape[-1]}:
            continue
        cut = {**x, "x": x["x"][..., part]}
        if "w" in x:
            cut["w"] = x["w"][part]
        yield Planted(
            cause=Cause.MISSING_ACCUMULATION,
            kind=kind,
            operator=operator,
            expected=run(x),
            actual=run(cut),
            inputs=inputs,
            dtype=dtype,
        )


def plant_families(shape: tuple[int, ...], seed: int) -> Iterator[Planted]:
    inputs = make_inputs(shape, seed=seed, dtype=DType.FLOAT32)
    big = {**inputs, "x": inputs["x"] * 16 + 60}
    tiny = {**inputs, "x": inputs["x"] * np.float32(1e-3)}
    with np.errstate(all="ignore"):
        exps = np.exp(big["x"]) / np.exp(big["x"]).sum(axis=-1, keepdims=True)
        sums = np.log(np.exp(big["x"]).sum(axis=-1))
    x = wide(big)["x"]
    rest: dict[str, Any] = {"inputs": big, "family": Family.BIG, "cause": Cause.MISSING_MAXIMUM}
    kind = "no row maximum"
    yield Planted(kind=kind, operator="softmax", expected=softmax(x, -1), actual=exps, **rest)
    wanted = np.log(np.exp(x - x.max()).sum(axis=-1)) + x.max()
    yield Planted(kind=kind, operator="logsumexp", expected=wanted, actual=sums, **rest)
    x, g, b = (wide(tiny)[n] for n in "xgb")
    rest = {"inputs": tiny, "family": Family.TINY, "cause": Cause.MISSING_EPSILON}
    for name, function in (("rms_norm", root_mean_square), ("layer_norm", normalise)):
        for gain, bias in ((1.0, 0.0), (g, 0.0), (g, b)):
            wanted, got = (function(x, -1, e) * gain + bias for e in (EPSILON, 0.0))
            yield Planted(kind="no epsilon", operator=name, expected=wanted, actual=got, **rest)


def plant_functions(shape: tuple[int, ...], seed: int) -> Iterator[Planted]:
    inputs = make_inputs(shape, seed=seed, dtype=DType.FLOAT32)
    x = wide(inputs)["x"]
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    for operator, expected, actual in (
        ("gelu by tanh", gelu(x), 0.5 * x * (1 + np.tanh(inner))),
        ("silu for gelu", gelu(x), x * sigmoid(x)),
        ("tanh for sigmoid", sigmoid(x), np.tanh(x)),
    ):
        yield Planted(
            cause=Cause.WRONG_FUNCTION,
            kind="another function",
            operator=operator,
            expected=expected,
            actual=actual,
            inputs=inputs,
        )


def plant_all(seed: int, *, shapes: tuple[tuple[int, ...], ...]) -> Iterator[Planted]:
    """Every fault on every operator and shape where it has a form."""
    for number, shape in enumerate(shapes):
        dtype = (DType.FLOAT32, DType.BFLOAT16)[number % 2]
        inputs = make_inputs(shape, seed=seed, dtype=dtype)
        for operator, run in {**ROWS, **ELEMENTWISE}.items():
            yield from plant_changes(operator, run(wide(inputs)), inputs, dtype)
        for operator, run in ELEMENTWISE.items():
            yield Planted(
                cause=Cause.COPY,
                kind="copy",
                operator=operator,
                expected=run(wide(inputs)),
                actual=wide(inputs)["x"],
                inputs=inputs,
                dtype=dtype,
            )
        full = make_inputs(shape, seed=seed, dtype=DType.FLOAT32)
        for operator, run in {**ROWS, **ELEMENTWISE}.items():
            yield from plant_precision(operator, run, full)
        for operator, run in ROWS.items():
            yield from plant_axes(operator, run, inputs, dtype)
        if len(shape) > 1:
            yield from plant_families(shape, seed)
        yield from plant_functions(shape, seed)
    yield from plant_reductions(seed, shapes)
    yield from plant_products(seed)


def plant_reductions(seed: int, shapes: tuple[tuple[int, ...], ...]) -> Iterator[Planted]:
    for operator, run in REDUCTIONS.items():
        for shape in SQUARES:
            inputs = make_inputs(shape, seed=seed, dtype=DType.FLOAT32)
            yield from plant_axes(operator, run, inputs, DType.FLOAT32)
        for shape in (s for s in shapes if len(s) > 1):
            inputs = make_inputs(shape, seed=seed, dtype=DType.FLOAT32)
            yield from plant_terms(operator, run, inputs, DType.FLOAT32)


def plant_products(seed: int) -> Iterator[Planted]:
    for number, shape in enumerate(PRODUCT_SHAPES):
        dtype = (DType.FLOAT32, DType.BFLOAT16)[number % 2]
        inputs = make_product_inputs(shape, seed=seed, dtype=dtype)
        x = wide(inputs)
        for operator, run in PRODUCTS.items():
            yield from plant_changes(operator, run(x), inputs, dtype)
            yield from plant_terms(operator, run, inputs, dtype)
            if dtype is DType.FLOAT32:
                yield from plant_precision(operator, run, inputs)
        if x["w"].shape[0] == x["w"].shape[1]:
            yield Planted(
                cause=Cause.PERMUTED,
                kind="transposed operand",
                operator="matmul",
                expected=x["x"] @ x["w"],
                actual=x["x"] @ x["w"].T,
                inputs=inputs,
                dtype=dtype,
            )
