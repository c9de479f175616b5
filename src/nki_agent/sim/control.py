"""Registers, and what two cores do together.

Law: a register instruction moves 32 bits; a shorter integer in memory is extended as its format
says, and keeps the low bits of what is stored to it. A barrier computes nothing: `meeting` lets
cores wait. An exchange is two steps, sending and receiving, with the wait between them.
Not modelled: registers loaded from or stored to floats, whose meaning is not documented.
"""

from __future__ import annotations

import numpy as np

from nki_agent.program.registers import wrap
from nki_agent.sim.axes import natural_shape
from nki_agent.sim.plan import Array, refuse
from nki_agent.sim.sequencer import Sequencer
from nki_agent.sim.site import Site


def register_move(site: Site) -> None:
    """A number, or another register, to a register."""
    dst, *src = site.registers
    if src:
        site.step(_move, site.sequencer, dst, src[0])
    else:
        site.step(_set, site.sequencer, dst, site.number("src", _word))


def register_load(site: Site) -> None:
    """One element of memory to a register."""
    dtype = site.operand("src").dtype
    if not dtype.is_integer:
        refuse(f"`register_load` of {dtype.value}")
    (dst,) = site.registers
    site.step(_load, site.sequencer, dst, site.load("src", (1,), dtype.numpy_dtype))


def register_store(site: Site) -> None:
    """A register to one element of memory."""
    dtype = site.operand("dst").dtype
    if not dtype.is_integer:
        refuse(f"`register_store` to {dtype.value}")
    (src,) = site.registers
    stored = site.scratch((1,), dtype.numpy_dtype)
    site.step(_store, site.sequencer, src, stored)
    site.save("dst", stored, (1,), dtype.numpy_dtype)


def _word(value: float | int) -> Array:
    return np.array(wrap(int(value)), np.int64)


def _set(sequencer: Sequencer, dst: int, value: Array) -> None:
    sequencer.set(dst, int(value))


def _move(sequencer: Sequencer, dst: int, src: int) -> None:
    sequencer.set(dst, sequencer.get(src))


def _load(sequencer: Sequencer, dst: int, stored: Array) -> None:
    sequencer.set(dst, int(stored[0]))


def _store(sequencer: Sequencer, src: int, stored: Array) -> None:
    stored[0] = np.array(sequencer.get(src), np.int64).astype(stored.dtype)


def core_barrier(_site: Site) -> None:
    """Nothing to compute."""


def sendrecv(site: Site) -> None:
    """Send `src`, then receive into `dst`; `send` and `receive` are what `meeting` looks for."""
    pipe = site.call.attribute("pipe_id")
    dtype = site.operand("src").dtype
    shape = natural_shape(site.axes("src"))
    if dtype.is_float:
        site.step(send, site.sequencer, pipe, site.read("src", shape))
        got = site.scratch(natural_shape(site.axes("dst")))
        site.step(receive, site.sequencer, pipe, got)
        site.store("dst", got, got.shape, is_exact=True)
        return
    stored = dtype.numpy_dtype
    site.step(send, site.sequencer, pipe, site.load("src", shape, stored))
    got = site.scratch(natural_shape(site.axes("dst")), stored)
    site.step(receive, site.sequencer, pipe, got)
    site.save("dst", got, got.shape, stored)


def send(sequencer: Sequencer, pipe: int, values: Array) -> None:
    """Keep a copy for the other core."""
    sequencer.sent[pipe] = values.copy()


def receive(sequencer: Sequencer, pipe: int, out: Array) -> None:
    """Take what the other core has sent."""
    out[...] = sequencer.received.pop(pipe).reshape(out.shape)
