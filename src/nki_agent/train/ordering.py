"""An order of dialogues in which those of one batch have like lengths, so little is padding.

Law: every dialogue comes once an epoch but for those that fill no batch, by chance; the order is a
function of the generator, so a training that goes on from a checkpoint goes on in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

POOL: Final = 24
"""Batches that are sorted together: few enough that a batch's mix differs from epoch to epoch."""


def order_by_length(
    lengths: Sequence[int], *, batch: int, batches: int, rng: np.random.Generator
) -> list[int]:
    """Places of dialogues, `batch` after `batch`, epoch after epoch, until there are `batches`."""
    order: list[int] = []
    while len(order) < batch * batches:
        epoch = _order_epoch(lengths, batch=batch, rng=rng)
        order += epoch
    return order[: batch * batches]


def _order_epoch(lengths: Sequence[int], *, batch: int, rng: np.random.Generator) -> list[int]:
    shuffled = [int(place) for place in rng.permutation(len(lengths))]
    if len(shuffled) <= batch:
        return shuffled
    found: list[list[int]] = []
    for start in range(0, len(shuffled), batch * POOL):
        pool = sorted(shuffled[start : start + batch * POOL], key=lambda place: lengths[place])
        found += [pool[i : i + batch] for i in range(0, len(pool), batch)]
    whole = [places for places in found if len(places) == batch]
    return [place for index in rng.permutation(len(whole)) for place in whole[int(index)]]
