"""Row softmax of an input times a number that is known before the kernel is traced."""

import numpy as np


def reference(x, scale):
    y = x * scale
    e = np.exp(y - y.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def inputs(rng):
    return {"x": rng.standard_normal((100, 24)).astype(np.float32), "scale": 2.0}
