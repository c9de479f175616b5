"""bfloat16 is widened bit for bit."""

from __future__ import annotations

import numpy as np

from nki_agent.task.halves import BFLOAT16, to_single


def test_every_bfloat16_has_the_bits_of_the_cast() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)
    found, wanted = to_single(every), every.astype(np.float32)
    assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32))


def test_single_precision_is_not_copied() -> None:
    array = np.ones((2, 3), np.float32)
    assert to_single(array) is array


def test_part_of_an_array_is_widened() -> None:
    part = np.arange(24).reshape(4, 6).astype(BFLOAT16)[::2, 1:5]
    assert np.array_equal(to_single(part), part.astype(np.float32))
