"""The random number generators behind the chance instructions."""

import numpy as np
import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.enums import Engine
from nki_agent.sim.generator import Counter, Generator, Xorwow, make_generator

WORD = 2**32
EVERY = slice(0, 128)


def marsaglia(state: list[int], count: int) -> list[int]:
    """XORWOW one number at a time, as the paper has it."""
    x, y, z, w, v, d = state
    numbers = []
    for _ in range(count):
        t = x ^ (x >> 2)
        x, y, z, w = y, z, w, v
        v = (v ^ (v << 4) ^ t ^ (t << 1)) % WORD
        d = (d + 362437) % WORD
        numbers.append((d + v) % WORD)
    state[:] = [x, y, z, w, v, d]
    return numbers


@pytest.mark.parametrize("count", [1, 4, 5, 6, 23])
def test_xorwow_gives_the_numbers_of_the_paper(count: int) -> None:
    generator = Xorwow(128, 1)
    states = generator.save(slice(3, 6)).tolist()
    drawn = generator.draw(slice(3, 6), count).tolist()
    assert drawn == [marsaglia(state, count) for state in states]
    assert generator.save(slice(3, 6)).tolist() == states


def test_first_numbers_of_the_published_state() -> None:
    # The initial state that the paper gives for xorwow.
    state = [123456789, 362436069, 521288629, 88675123, 5783321, 6615241]
    generator = Xorwow(128, 1)
    generator.load(slice(0, 1), np.array([state], np.uint32))
    assert generator.draw(slice(0, 1), 3).tolist() == [marsaglia(state, 3)]


def test_four_states_of_a_lane_take_turns() -> None:
    generator = Xorwow(128, 4)
    states = generator.save(slice(7, 8)).reshape(4, 6).tolist()
    drawn = generator.draw(slice(7, 8), 10)[0].tolist()
    streams = [marsaglia(state, 3) for state in states]
    assert drawn == [streams[k % 4][k // 4] for k in range(10)]
    assert generator.save(slice(7, 8)).reshape(4, 6).tolist() == states


@pytest.mark.parametrize("streams", [1, 4])
def test_restored_states_give_the_same_numbers_again(streams: int) -> None:
    generator = Xorwow(128, streams)
    saved = generator.save(EVERY)
    first = generator.draw(EVERY, 9)
    generator.load(EVERY, saved)
    assert generator.draw(EVERY, 9).tolist() == first.tolist()


GENERATORS = [Counter(128), Xorwow(128, 1)]


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: type(g).__name__)
def test_numbers_do_not_depend_on_how_they_are_drawn(generator: Generator) -> None:
    generator.seed(5)
    whole = generator.draw(EVERY, 12)
    generator.seed(5)
    parts = [generator.draw(EVERY, count) for count in (1, 7, 4)]
    assert np.concatenate(parts, axis=1).tolist() == whole.tolist()
    generator.seed(5)
    lower, upper = generator.draw(slice(0, 64), 12), generator.draw(slice(64, 128), 12)
    assert np.concatenate([lower, upper]).tolist() == whole.tolist()
    generator.seed(5)
    assert generator.draw(slice(0, 128, 32), 12).tolist() == whole[::32].tolist()


@pytest.mark.parametrize("generator", [*GENERATORS, Xorwow(128, 4)], ids=["0", "1", "4"])
def test_bits_of_all_lanes_are_even_and_apart(generator: Generator) -> None:
    generator.seed(1)
    numbers = generator.draw(EVERY, 512)
    assert len(np.unique(numbers)) > numbers.size - 10
    for bit in range(32):
        share = float(((numbers >> np.uint32(bit)) & np.uint32(1)).mean())
        assert share == pytest.approx(0.5, abs=0.01)
    generator.seed(2)
    assert not (generator.draw(EVERY, 512) == numbers).any(axis=1).all()


@pytest.mark.parametrize(
    ("target", "engine", "kind"),
    [
        (Target.TRN1, Engine.VECTOR, Counter),
        (Target.TRN2, Engine.VECTOR, Counter),
        (Target.TRN2, Engine.GPSIMD, Xorwow),
        (Target.TRN3, Engine.VECTOR, Xorwow),
        (Target.TRN3, Engine.GPSIMD, Xorwow),
    ],
)
def test_engine_has_the_generator_of_its_generation(
    target: Target, engine: Engine, kind: type
) -> None:
    assert type(make_generator(engine, load_chip(target))) is kind
