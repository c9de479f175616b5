"""Two outputs of one shape."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def reference(x: Array) -> tuple[Array, Array]:
    return np.maximum(x, 0), np.minimum(x, 0)


def inputs(rng: np.random.Generator) -> dict[str, Any]:
    return {"x": rng.standard_normal((100, 24)).astype(np.float32)}
