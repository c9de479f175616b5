"""An array of the file that no kernel is given, in NumPy.

Finding: hidden
"""

from typing import Any

import numpy as np

TABLE = np.linspace(0, 1, 96, dtype=np.float32)


def reference(x: Any) -> Any:
    return np.exp(x) * TABLE


def inputs(rng: np.random.Generator) -> list[Any]:
    return [rng.standard_normal((40, 96), dtype=np.float32)]
