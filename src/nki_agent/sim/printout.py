"""What a kernel prints: copies of tensors, kept up to a size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

PRINTED_BYTES_MAX = 64 * 2**20
"""Bytes kept of one run; a print in a long loop is cut off here."""


class Printout:
    """(prefix, array) of each print in order, and how many there was no room for."""

    def __init__(self) -> None:
        """Nothing is printed yet."""
        self._num_bytes = 0
        self.kept: list[tuple[str, Array]] = []
        self.num_dropped = 0

    def clear(self) -> None:
        """Start over."""
        self._num_bytes, self.num_dropped = 0, 0
        self.kept = []

    def make_room(self, prefix: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """A new array to write the next print to; None where the room is used up."""
        array = np.empty(shape, dtype)
        self._num_bytes += array.nbytes
        if self._num_bytes > PRINTED_BYTES_MAX:
            self.num_dropped += 1
            return None
        self.kept.append((prefix, array))
        return array
