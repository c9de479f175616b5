"""Inputs that are off by a rounding: what the reference's results hang on shows on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def move_inputs(
    inputs: Mapping[str, Array], names: Iterable[str], *, by: float, rng: np.random.Generator
) -> dict[str, Array]:
    """The inputs with these moved, in float64; `by` is relative, a standard deviation."""
    moved = dict(inputs)
    for name in names:
        noise = rng.standard_normal(inputs[name].shape, dtype=np.float32)
        moved[name] = inputs[name].astype(np.float64) * (1.0 + by * noise)
    return moved
