"""The chain of instructions that decides a latency, and what bounds a timeline.

Law: the times along the chain add up to the latency. A timeline is bounded by a resource that has
work most of the time, else by the waits along its chain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from nki_agent.isa.enums import Engine

BUSY_SHARE = 0.75
"""A resource that has work for this share of the latency bounds it."""


class LimitKind(StrEnum):
    """What keeps a timeline from being shorter."""

    DMA = "dma"
    TENSOR = "tensor"
    VECTOR = "vector"
    SCALAR = "scalar"
    GPSIMD = "gpsimd"
    SYNC = "sync"
    WAITS = "waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What bounds a timeline, and a sentence about it."""

    kind: LimitKind
    share: float
    """Of the latency: time with work, or the largest part of the chain."""
    text: str


@dataclass(frozen=True, slots=True)
class Path:
    """The deciding chain, last instruction first, and each one's part of the latency."""

    instructions: NDArray[np.int64]
    ns: NDArray[np.float64]


def walk_back(
    start_ns: NDArray[np.float64],
    end_ns: NDArray[np.float64],
    causes: NDArray[np.int32],
    *,
    weights: NDArray[np.int64] | None = None,
    skipped_ns: NDArray[np.float64] | None = None,
) -> Path:
    """Follow from the last end what each instruction waited for.

    `skipped_ns` is the time of iterations that were not run, up to each instruction; it goes to the
    instructions of the chain that stand for more than one execution.
    """
    if not len(end_ns):
        return Path(np.zeros(0, np.int64), np.zeros(0))
    index = int(end_ns.argmax())
    cursor = float(end_ns[index])
    starts, links = start_ns.tolist(), causes.tolist()
    chain, parts = [], []
    while index >= 0:
        chain.append(index)
        parts.append(cursor - starts[index])
        cursor = starts[index]
        index = links[index]
    path = Path(np.array(chain, np.int64), np.array(parts))
    if weights is None or skipped_ns is None or not skipped_ns.any():
        return path
    return _spread(path, weights[path.instructions], skipped_ns[path.instructions])


def _spread(path: Path, weights: NDArray[np.int64], skipped_ns: NDArray[np.float64]) -> Path:
    """Deal the time of iterations that were not run to those that stand for them."""
    gaps = np.maximum(-np.diff(skipped_ns, prepend=skipped_ns[0]), 0.0)
    parts = path.ns - gaps
    shares = np.maximum(parts, 0.0) * (weights - 1)
    if not shares.sum():
        return path
    return Path(path.instructions, parts + gaps.sum() * shares / shares.sum())


def find_limit(
    latency_ns: float, busy_ns: Mapping[Engine, float], engines: Sequence[Engine], path: Path
) -> Limit:
    """Name the resource or the waits that bound a timeline; `engines` are those along the path."""
    if not latency_ns:
        return Limit(kind=LimitKind.WAITS, share=0.0, text="there is nothing to run")
    busiest = max(busy_ns, key=lambda engine: busy_ns[engine])
    share = busy_ns[busiest] / latency_ns
    if share >= BUSY_SHARE:
        text = f"{_title(busiest)} has work {100 * share:.0f} % of the time"
        return Limit(kind=LimitKind(busiest.value), share=share, text=text)
    parts = dict.fromkeys(busy_ns, 0.0)
    for engine, ns in zip(engines, path.ns.tolist(), strict=True):
        parts[engine] += ns
    ranked = sorted(parts, key=lambda engine: -parts[engine])
    told = [f"{_title(e)} {100 * parts[e] / latency_ns:.0f} %" for e in ranked if parts[e] > 0]
    return Limit(
        kind=LimitKind.WAITS,
        share=parts[ranked[0]] / latency_ns,
        text=f"nothing has work more than {100 * share:.0f} % of the time; the longest chain is "
        + ", ".join(told),
    )


def _title(engine: Engine) -> str:
    match engine:
        case Engine.DMA:
            return "DMA"
        case Engine.TENSOR | Engine.VECTOR | Engine.SCALAR | Engine.GPSIMD | Engine.SYNC:
            return f"the {engine.value} engine"
