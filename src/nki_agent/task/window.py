"""How much of its data a convolution needs: taps that fall on padding multiply nothing.

Law: counts are those of a dense convolution as it is written; tricks that trade products for sums
(Winograd, FFT) are left out. Needs no PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window that moves over an image, along each of its axes.

    In a transposed convolution the image is the output.
    """

    steps: Sequence[int]
    """Places that the window takes."""
    image: Sequence[int]
    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]

    def count_taps(self) -> int:
        """Pairs of a place and an element of the kernel that fall inside of the image."""
        return math.prod(int(np.count_nonzero(self._is_inside(axis))) for axis in self._axes())

    def count_read(self) -> int:
        """Elements of the image that any tap falls on."""
        return math.prod(
            np.unique(self._places(axis)[self._is_inside(axis)]).size for axis in self._axes()
        )

    def _axes(self) -> range:
        return range(len(self.kernel))

    def _places(self, axis: int) -> NDArray[np.int64]:
        steps = np.arange(self.steps[axis])[:, None] * self.stride[axis] - self.padding[axis]
        return steps + np.arange(self.kernel[axis]) * self.dilation[axis]

    def _is_inside(self, axis: int) -> NDArray[np.bool_]:
        places = self._places(axis)
        return (places >= 0) & (places < self.image[axis])
