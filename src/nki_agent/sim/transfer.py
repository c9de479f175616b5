"""Moving elements unchanged between operands of one dtype, by bits wherever both lie alike.

Law: two operands of one dtype may lie differently, one as float32, the other in the format's own
bytes; then elements go through float32, which holds every value of the format.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_agent.sim.axes import Shape
from nki_agent.sim.plan import Arg, Array
from nki_agent.sim.rounding import FLOAT
from nki_agent.sim.site import Site
from nki_agent.sim.storage import INTEGER_BYTE, NAN_BYTE


def transfer_dtype(site: Site, dst: str, src: str) -> np.dtype[Any]:
    """The NumPy dtype in which elements of `src` become elements of `dst`, of the same dtype."""
    stored = site.stored_dtype(dst)
    return stored if stored == site.stored_dtype(src) else FLOAT


def load_common(site: Site, role: str, shape: Shape, dtype: np.dtype[Any]) -> Arg:
    """The operand's elements in a dtype of `transfer_dtype`; a view of the operand or a copy."""
    if site.stored_dtype(role) == dtype:
        return site.load(role, shape, dtype)
    return site.read(role, shape)


def save_common(site: Site, role: str, values: Arg, shape: Shape, dtype: np.dtype[Any]) -> None:
    """Write elements in a dtype of `transfer_dtype` to the operand."""
    if site.stored_dtype(role) == dtype:
        site.save(role, values, shape, dtype)
    else:
        site.store(role, values, shape, is_exact=True)


def poison(dtype: np.dtype[Any]) -> Array:
    """An element that nobody wrote: NaN, or an integer of 0x7F bytes."""
    byte = INTEGER_BYTE if dtype.kind in "iu" else NAN_BYTE
    return np.full(dtype.itemsize, byte, np.uint8).view(dtype)[0:1].reshape(())
