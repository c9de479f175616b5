"""Chooses the sizes of a task: dev, odd and perf.

Law: dev sizes stay within what a simulator runs in a moment and are mostly no multiples of the
chip's tiles; odd ones differ from each other; perf ones are those of real models, and the tensors
of a task are neither too small to time nor too large for a chip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from nki_agent.corpus.expand import Draft
from nki_agent.corpus.grammar import Grammar, SizeKind
from nki_agent.corpus.shape_text import Axes, evaluate

DEV_ELEMS_MAX = 40_000
ODD_ELEMS_MAX = 40_000
PERF_BYTES = (2 << 20, 400 << 20)
PERF_FLOPS_MAX = {"float32": 1.0e11, "bfloat16": 3.0e11}
_STEPS_MAX = 40
_ITEM_BYTES = {"float32": 4, "int32": 4, "bfloat16": 2, "float16": 2}

Sizes = dict[str, int]


class Regime(StrEnum):
    """How the axes of a task are to each other."""

    PLAIN = "plain"
    POWER = "power"  # dev sizes that fill tiles exactly
    TALL = "tall"
    WIDE = "wide"
    TINY = "tiny"  # one short axis


_SHARES = {
    Regime.PLAIN: 0.5,
    Regime.POWER: 0.12,
    Regime.TALL: 0.14,
    Regime.WIDE: 0.14,
    Regime.TINY: 0.1,
}
_LONG, _SHORT = 2.0, 0.5
_SHORTEST = 3
UNIQUE = "unique"
_SPARE = 16
_CHANNELLED = frozenset({"signal", "image", "volume", "grouped_image"})
_PAIRS = frozenset({"scores", "grouped_scores"})


class SizesDoNotFit(Exception):  # noqa: N818 - a turn of the draw, and no fault
    """No choice of sizes keeps the tensors within their limits."""


def draw_shapes(grammar: Grammar, draft: Draft, rng: np.random.Generator) -> dict[str, Sizes]:
    """Sizes by the names that a task file gives them.

    Raises:
        SizesDoNotFit: the tensors cannot be brought within their limits.
    """
    kinds = {name: grammar.sizes[kind] for name, kind in draft.sizes.items()}
    regime = Regime(str(rng.choice(list(_SHARES), p=list(_SHARES.values()))))
    axes = [t.axes for t in (*draft.inputs, *draft.weights)] + [
        draft.values[name].axes for name in draft.pattern.outputs
    ]
    dev = _draw_dev(kinds, rng, regime=regime)
    shrink(dev, kinds, axes, limit=DEV_ELEMS_MAX, low="dev")
    odd = _draw_odd(kinds, rng)
    shrink(odd, kinds, axes, limit=ODD_ELEMS_MAX, low="odd", apart=True)
    perf = {name: int(rng.choice(kind.perf)) for name, kind in kinds.items()}
    _fit_perf(perf, kinds, draft, axes)
    for sizes in (dev, odd, perf):
        _make_room(sizes, draft)
    return {"dev": dev, "odd": odd, "perf": perf}


def _make_room(sizes: Sizes, draft: Draft) -> None:
    """Indices of which none may come twice need as many places."""
    for tensor in draft.inputs:
        name, _, bound = tensor.recipe.rstrip(")").partition("(")
        if name == UNIQUE and bound in sizes:
            sizes[bound] = max(sizes[bound], count(tensor.axes, sizes) + _SPARE)


def _draw_dev(kinds: Mapping[str, SizeKind], rng: np.random.Generator, *, regime: Regime) -> Sizes:
    found: Sizes = {}
    growing = [name for name, kind in kinds.items() if not kind.fixed]
    for name, kind in kinds.items():
        low, high = kind.dev
        size = int(rng.integers(low, high + 1))
        if not kind.fixed:
            size = _bend(size, regime, is_last=name == growing[-1], is_first=name == growing[0])
        found[name] = max(low if kind.fixed else min(low, _SHORTEST), size)
    return found


def _bend(size: int, regime: Regime, *, is_last: bool, is_first: bool) -> int:
    match regime:
        case Regime.PLAIN:
            return size
        case Regime.POWER:
            return 1 << max(0, round(math.log2(size)))
        case Regime.TALL | Regime.WIDE:
            grows = is_first if regime is Regime.TALL else is_last
            if not is_first and not is_last:
                return size
            return max(_SHORTEST, round(size * (_LONG if grows else _SHORT)))
        case Regime.TINY:
            return max(_SHORTEST, size // 8) if is_last else size


def _draw_odd(kinds: Mapping[str, SizeKind], rng: np.random.Generator) -> Sizes:
    """Sizes that differ from each other wherever their ranges let them."""
    found: Sizes = {}
    for name, kind in kinds.items():
        low, high = kind.odd
        size = int(rng.integers(low, high + 1))
        while size in found.values() and size < high:
            size += 1
        while size in found.values() and size > low:
            size -= 1
        found[name] = size
    return found


def shrink(
    sizes: Sizes,
    kinds: Mapping[str, SizeKind],
    axes: list[Axes],
    *,
    limit: int,
    low: str,
    apart: bool = False,
) -> None:
    """Shorten the longest sizes until each tensor has at most `limit` elements."""
    for _ in range(_STEPS_MAX):
        if max(count(a, sizes) for a in axes) <= limit:
            return
        names = [n for n, k in kinds.items() if not k.fixed and sizes[n] > _floor(k, low)]
        if not names:
            break
        name = max(names, key=lambda n: (sizes[n], n))
        shorter = max(_floor(kinds[name], low), round(sizes[name] * 0.7))
        while apart and shorter in sizes.values() and shorter > _floor(kinds[name], low):
            shorter -= 1
        sizes[name] = shorter
    raise SizesDoNotFit


def _floor(kind: SizeKind, which: str) -> int:
    return kind.dev[0] if which == "dev" else kind.odd[0]


def count(axes: Axes, sizes: Mapping[str, int]) -> int:
    """Elements of a tensor."""
    return math.prod(evaluate(axis, sizes) for axis in axes)


def _fit_perf(sizes: Sizes, kinds: Mapping[str, SizeKind], draft: Draft, axes: list[Axes]) -> None:
    """Step along the choices of each kind until the bytes are within their range."""
    low, high = PERF_BYTES
    item = _ITEM_BYTES[draft.dtype]
    for _ in range(_STEPS_MAX):
        total = item * sum(count(a, sizes) for a in axes)
        is_heavy = _estimate_flops(draft, sizes) > PERF_FLOPS_MAX.get(draft.dtype, high)
        if low <= total <= high and not is_heavy:
            return
        step = 1 if total < low and not is_heavy else -1
        movable = [n for n, k in kinds.items() if not k.fixed and _next(sizes[n], k, step)]
        if not movable:
            raise SizesDoNotFit
        order = min if step > 0 else max
        name = order(movable, key=lambda n: (sizes[n], n))
        found = _next(sizes[name], kinds[name], step)
        assert found is not None
        sizes[name] = found
    raise SizesDoNotFit


def _estimate_flops(draft: Draft, sizes: Mapping[str, int]) -> float:
    """Products of the weights with each row or place, and of queries with keys; about right."""
    if not any(o.matmul for o in draft.operators):
        return 0.0
    values = [v.axes for v in draft.values.values() if len(v.axes) > 1]
    places = max(_count_places(axes, draft, sizes) for axes in values)
    weights = sum(count(t.axes, sizes) for t in draft.weights if len(t.axes) > 1)
    pairs = [v.axes for v in draft.values.values() if v.layout in _PAIRS]
    depth = sizes.get("D", 1)
    return 2.0 * places * weights + 4.0 * depth * max((count(a, sizes) for a in pairs), default=0)


def _count_places(axes: Axes, draft: Draft, sizes: Mapping[str, int]) -> int:
    """Rows of a tensor of rows, pixels of an image."""
    layouts = {v.layout for v in draft.values.values() if v.axes == axes}
    channel = axes[1] if layouts & _CHANNELLED else axes[-1]
    return count(axes, sizes) // max(1, evaluate(channel, sizes))


def _next(size: int, kind: SizeKind, step: int) -> int | None:
    choices = sorted(kind.perf)
    place = choices.index(size) + step
    return choices[place] if 0 <= place < len(choices) else None
