"""Chooses a fault for a kernel: a family, a kind, a place, each by chance from what is possible.

Law: the same kernel and generator give the same drafts in the same order; each differs from the
right kernel, and can still be told apart by what it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nki_agent.corpus.faults import dialect, limits, memory, names, numerics, sizes
from nki_agent.corpus.faults.fault import Fault, FaultFamily, Place
from nki_agent.corpus.faults.kernel_text import KernelText

FAULTS: tuple[Fault, ...] = (
    *sizes.FAULTS,
    *names.FAULTS,
    *limits.FAULTS,
    *memory.FAULTS,
    *numerics.FAULTS,
    *dialect.FAULTS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A kernel with one fault."""

    fault: Fault
    source: str
    cause: str


def list_drafts(
    source: str, rng: np.random.Generator, *, first: FaultFamily | None = None
) -> Iterator[Planted]:
    """Faulty kernels made of a right one, one of each kind of fault.

    Those of the family `first` come first.
    """
    kernel = KernelText(source)
    families = list(FaultFamily)
    order = [families[index] for index in rng.permutation(len(families))]
    if first is not None:
        order.sort(key=lambda family: family is not first)
    for family in order:
        kinds = [fault for fault in FAULTS if fault.family is family]
        for index in rng.permutation(len(kinds)):
            draft = _plant(kernel, kinds[index], rng)
            if draft is not None:
                yield draft


def _plant(kernel: KernelText, fault: Fault, rng: np.random.Generator) -> Planted | None:
    """The fault at one of its places, if it has any."""
    places: list[Place] = list(fault.find(kernel))
    if not places:
        return None
    place = places[int(rng.integers(len(places)))]
    source = kernel.apply(place.changes)
    if source == kernel.source:
        return None
    return Planted(fault=fault, source=source, cause=place.cause)
