"""Instructions that draw random numbers or handle the state behind them.

Law: a run starts from one fixed state, so equal arrays give equal results. Numbers are drawn in
row-major order of each partition's elements. A uniform number is the upper 24 of 32 bits, so it is
exact in float32 and below 1.
"""

from __future__ import annotations

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.isa.chance import STATE_WORDS
from nki_agent.sim.generator import Generator, Xorwow
from nki_agent.sim.plan import Array
from nki_agent.sim.rounding import FLOAT, WORD
from nki_agent.sim.site import UNSIGNED, WORD_BYTES, Site
from nki_agent.sim.transfer import load_common, poison, save_common, transfer_dtype

DROPPED_BITS = np.uint32(8)
UNIT = np.float32(2.0**-24)
"""One step of a uniform number."""


def _lanes(site: Site, role: str) -> slice:
    partition = site.operand(role).pattern.partition
    assert partition is not None
    start, step, count = partition
    return slice(start, start + step * (count - 1) + 1, step)


def _rows(site: Site, role: str) -> tuple[int, int]:
    pattern = site.operand(role).pattern
    return pattern.partitions, pattern.free_elems


def _draw_uniform(generator: Generator, lanes: slice, count: int) -> Array:
    bits = generator.draw(lanes, count) >> DROPPED_BITS
    return bits.astype(FLOAT) * UNIT


def rng(site: Site) -> None:
    """32 random bits an element; a narrower integer keeps the low ones."""
    shape = _rows(site, "dst")
    out = site.scratch(shape, WORD)
    site.step(_draw_bits, site.generator(), _lanes(site, "dst"), out)
    site.save_bits("dst", out, shape)


def _draw_bits(generator: Generator, lanes: slice, out: Array) -> None:
    out[...] = generator.draw(lanes, out.shape[1])


def dropout(site: Site) -> None:
    """`data` with zeros where a uniform number is below `prob`; nothing is rescaled."""
    shape, dtype = _rows(site, "dst"), transfer_dtype(site, "dst", "data")
    out = site.scratch(shape, dtype)
    site.copy(out, load_common(site, "data", shape, dtype))
    chance = (site.generator(), _lanes(site, "data"))
    site.step(_drop, *chance, site.read_column("prob", len(shape)), out)
    save_common(site, "dst", out, shape, dtype)


def _drop(generator: Generator, lanes: slice, prob: Array, out: Array) -> None:
    uniform = _draw_uniform(generator, lanes, out.shape[1])
    np.copyto(out, np.zeros((), out.dtype), where=uniform < prob)
    if np.isnan(prob).any():
        np.copyto(out, poison(out.dtype), where=np.isnan(prob))


def rand2(site: Site) -> None:
    """`min + u * (max - min)` in float32 for uniform u, rounded at the destination."""
    shape = _rows(site, "dst")
    low, high = (site.read_column(role, len(shape)) for role in ("min", "max"))
    site.check(_check_bounds, low, high)
    out = site.scratch(shape)
    site.step(_spread, site.generator(), _lanes(site, "dst"), low, high, out)
    site.store("dst", out, shape)


def _spread(generator: Generator, lanes: slice, low: Array, high: Array, out: Array) -> None:
    uniform = _draw_uniform(generator, lanes, out.shape[1])
    np.add(uniform * (high - low), low, out)
    # Rounding may step over the upper bound.
    np.minimum(out, high, out=out)
    np.copyto(out, np.nan, where=~(low < high))


def _check_bounds(low: Array, high: Array) -> Diagnostic | None:
    bad = ~(low < high)
    if not bad.any():
        return None
    lows, highs = np.broadcast_arrays(low, high)
    where = tuple(np.argwhere(np.broadcast_to(bad, lows.shape))[0])
    return Diagnostic(
        code="NK506",
        severity=Severity.WARNING,
        what="range of `rand2`",
        got=f"{float(lows[where]):.6g} to {float(highs[where]):.6g}",
        limit="`min` below `max`",
        hint="swap the bounds; an empty range gives NaN here and anything on a chip",
    )


def set_rng_seed(site: Site) -> None:
    """Set the states of all lanes of the Vector Engine from one 32-bit value."""
    seed = site.load("src_seeds", (1, 1), UNSIGNED[WORD_BYTES])
    site.step(_seed, site.generator(), seed)


def _seed(generator: Generator, seed: Array) -> None:
    generator.seed(int(seed[0, 0]))


def _states(site: Site) -> Xorwow:
    generator = site.generator()
    assert isinstance(generator, Xorwow)
    return generator


def rand_set_state(site: Site) -> None:
    """Set the states of the lanes that `src_seeds` comes in on."""
    shape = (site.operand("src_seeds").pattern.partitions, STATE_WORDS[site.engine])
    words = site.load("src_seeds", shape, WORD)
    site.step(_load_state, _states(site), _lanes(site, "src_seeds"), words)


def _load_state(generator: Xorwow, lanes: slice, words: Array) -> None:
    generator.load(lanes, words)


def rand_get_state(site: Site) -> None:
    """Write the states of the lanes of `dst`."""
    shape = (site.operand("dst").pattern.partitions, STATE_WORDS[site.engine])
    out = site.scratch(shape, WORD)
    site.step(_save_state, _states(site), _lanes(site, "dst"), out)
    site.save("dst", out, shape, WORD)


def _save_state(generator: Xorwow, lanes: slice, out: Array) -> None:
    out[...] = generator.save(lanes)
