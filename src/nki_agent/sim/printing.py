"""`nl.device_print`: keeps a copy of a tensor as it is when the instruction runs.

Law: it changes no value.
"""

from __future__ import annotations

from nki_agent.isa.dtype import DType
from nki_agent.sim.plan import Array
from nki_agent.sim.printout import Printout
from nki_agent.sim.rounding import encode
from nki_agent.sim.site import Site


def device_print(site: Site) -> None:
    """Keep the tensor under its prefix."""
    operand = site.operand("tensor")
    stored = site.load("tensor", operand.shape, site.stored_dtype("tensor"))
    prefix = site.name("print_prefix")
    layout = site.layout("tensor")
    if layout.is_carried and layout.is_precise:
        site.step(_keep_carried, site.printout, prefix, operand.dtype, stored)
    else:
        site.step(_keep, site.printout, prefix, stored)


def _keep(printout: Printout, prefix: str, stored: Array) -> None:
    kept = printout.make_room(prefix, stored.shape, stored.dtype)
    if kept is not None:
        kept[...] = stored


def _keep_carried(printout: Printout, prefix: str, dtype: DType, stored: Array) -> None:
    kept = printout.make_room(prefix, stored.shape, dtype.numpy_dtype)
    if kept is not None:
        encode(stored, dtype, kept)
