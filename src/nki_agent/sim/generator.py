"""Random numbers of the engines: a state for each lane, 32 bits at a time.

XORWOW (Marsaglia, "Xorshift RNGs", 2003) is what AWS documents for the GpSimd Engine from v3 on and
for the Vector Engine of v4, where a lane has four states. The Vector Engine of v2 and v3 has a
shift register that is not published: a stand-in of our own takes its place.

Law: a lane's numbers depend on its state alone, whatever other lanes draw; an instruction that
draws n numbers leaves the state after n numbers (with four states, after n rounded up to four).
Before a kernel sets a state it is the same in every run, and differs between lanes.
Not published, and ours: the order of a state's words, how one seed becomes the states of all lanes,
and which of four states gives which element (they take turns).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.chance import GEN4, STATE_WORDS
from nki_agent.isa.enums import Engine

Array = npt.NDArray[Any]

FIRST_SEED = 0x6E6B69
"""What every generator is seeded with before a run."""
WORDS = 6
"""32-bit words of one XORWOW state: x, y, z, w, v and the counter d."""
WORD_BITS = 32
SHIFTED = 5
"""Words of the shift register; each number needs the one that is so many before it."""

_STEP = np.uint32(362437)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LANE = np.uint64(0xD1342543DE82EF95)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_MIX_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_UPPER = np.uint64(WORD_BITS)
_R2, _L1, _L4 = np.uint32(2), np.uint32(1), np.uint32(4)


class Generator(Protocol):
    """The random numbers of one engine."""

    def seed(self, number: int) -> None:
        """Set the state of every lane from one 32-bit number."""

    def draw(self, lanes: slice, count: int) -> Array:
        """The next `count` numbers of each of these lanes: uint32, (lanes, count)."""


def make_generator(engine: Engine, chip: ChipSpec) -> Generator:
    """The generator of an engine that has one, not seeded yet."""
    if engine is Engine.VECTOR and chip.generation < GEN4:
        return Counter(chip.partitions)
    return Xorwow(chip.partitions, STATE_WORDS[engine] // WORDS)


def _hash(seed: int, lanes: Array, counts: Array) -> Array:
    """32 well-mixed bits for each lane and count (the finalizer of SplitMix64)."""
    mixed = lanes * _LANE + (counts + np.uint64(seed)) * _GOLDEN
    for shift, factor in zip(_MIX_SHIFTS, _MIX, strict=False):
        mixed ^= mixed >> shift
        mixed *= factor
    mixed ^= mixed >> _MIX_SHIFTS[-1]
    return (mixed >> _UPPER).astype(np.uint32)


class Counter:
    """The stand-in: number k of a lane is a hash of the seed, the lane and k."""

    def __init__(self, lanes: int) -> None:
        """All lanes at their first number."""
        self._seed = FIRST_SEED
        self._counts = np.zeros(lanes, np.uint64)

    def seed(self, number: int) -> None:
        """Start all lanes anew."""
        self._seed = number
        self._counts.fill(0)

    def draw(self, lanes: slice, count: int) -> Array:
        """See Generator."""
        counts = self._counts[lanes, None] + np.arange(count, dtype=np.uint64)
        self._counts[lanes] += np.uint64(count)
        numbers = np.arange(len(self._counts), dtype=np.uint64)[lanes, None]
        return _hash(self._seed << WORD_BITS, numbers, counts)


class Xorwow:
    """One or more XORWOW states for each lane, which take turns within a draw."""

    def __init__(self, lanes: int, streams: int) -> None:
        """States as of `FIRST_SEED`."""
        self._streams = streams
        self._state = np.empty((WORDS, lanes, streams), np.uint32)
        self.seed(FIRST_SEED)

    def seed(self, number: int) -> None:
        """Spread one number over all states."""
        words, lanes, streams = self._state.shape
        counts = np.arange(words * streams, dtype=np.uint64).reshape(words, 1, streams)
        numbers = np.arange(lanes, dtype=np.uint64)[:, None]
        self._state[...] = _hash(number << WORD_BITS, numbers, counts)

    def draw(self, lanes: slice, count: int) -> Array:
        """See Generator."""
        state = self._state[:, lanes]
        steps = -(-count // self._streams)
        history = np.empty((SHIFTED + steps, *state.shape[1:]), np.uint32)
        history[:SHIFTED] = state[:SHIFTED]
        for first in range(0, steps, SHIFTED):
            # The words that leave the register in the next five steps are known by now.
            leaving = history[first : first + SHIFTED]
            leaving = leaving ^ (leaving >> _R2)
            leaving ^= leaving << _L1
            for i in range(first, min(first + SHIFTED, steps)):
                last, new = history[i + SHIFTED - 1], history[i + SHIFTED]
                np.left_shift(last, _L4, new)
                np.bitwise_xor(new, last, new)
                np.bitwise_xor(new, leaving[i - first], new)
        state[:SHIFTED] = history[steps:]
        counters = np.arange(1, steps + 1, dtype=np.uint32)[:, None, None] * _STEP
        numbers: Array = history[SHIFTED:] + state[SHIFTED] + counters
        state[SHIFTED] += np.uint32(steps * int(_STEP) & 0xFFFFFFFF)
        return numbers.transpose(1, 0, 2).reshape(state.shape[1], -1)[:, :count]

    def load(self, lanes: slice, words: Array) -> None:
        """Set the states of these lanes; a state's words lie together."""
        states = words.reshape(len(words), self._streams, WORDS)
        self._state[:, lanes] = states.transpose(2, 0, 1)

    def save(self, lanes: slice) -> Array:
        """The states of these lanes: uint32, (lanes, words)."""
        state = self._state[:, lanes].transpose(1, 2, 0)
        return state.reshape(len(state), -1).copy()
