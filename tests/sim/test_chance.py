"""Random bits, dropout, uniform numbers, and the state behind them."""

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory
from tests.sim.build import Array, Builder, View, simulate

F32, BF16, U32, I32 = DType.FLOAT32, DType.BFLOAT16, DType.UINT32, DType.INT32
TRN2, TRN3 = Target.TRN2, Target.TRN3
ENGINES = [(TRN2, Engine.VECTOR), (TRN2, Engine.GPSIMD), (TRN3, Engine.VECTOR)]


def drawn(
    builder: Builder, shape: tuple[int, int], dtype: DType = U32, *, engine: Engine = Engine.VECTOR
) -> View:
    dst = builder.tile(shape, dtype)
    builder.add("rng", {"dst": dst}, engine=engine)
    return dst


def set_seed(builder: Builder, value: int) -> None:
    name = f"seed{len(builder.arguments)}"
    seed = builder.load(name, np.array([[value]], np.uint32))
    builder.add("set_rng_seed", {"src_seeds": seed})


@pytest.mark.parametrize(("target", "engine"), ENGINES)
def test_every_run_draws_the_same_numbers(target: Target, engine: Engine) -> None:
    builder = Builder(target)
    builder.store(drawn(builder, (128, 16), engine=engine))
    executable = builder.compile()
    first, again = (executable.run({}).outputs[0] for _ in range(2))
    assert first.tolist() == again.tolist()
    assert len(np.unique(first)) == first.size


@pytest.mark.parametrize(("target", "engine"), ENGINES)
def test_numbers_do_not_depend_on_the_tiling(target: Target, engine: Engine) -> None:
    whole, tiled = Builder(target), Builder(target)
    whole.store(drawn(whole, (128, 32), engine=engine))
    for _ in range(4):
        tiled.store(drawn(tiled, (128, 8), engine=engine))
    parts = np.concatenate(tiled.outputs(), axis=1)
    assert parts.tolist() == whole.outputs()[0].tolist()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, I32])
def test_narrow_integers_keep_the_low_bits(dtype: DType) -> None:
    words, narrow = Builder(), Builder()
    words.store(drawn(words, (8, 16)))
    narrow.store(drawn(narrow, (8, 16), dtype))
    wanted = words.outputs()[0].astype(dtype.numpy_dtype)
    assert narrow.outputs()[0].tolist() == wanted.tolist()


@pytest.mark.parametrize("target", [Target.TRN1, TRN2, TRN3])
def test_equal_seeds_give_equal_numbers(target: Target) -> None:
    builder = Builder(target)
    for seed in (42, 42, 43):
        set_seed(builder, seed)
        builder.store(drawn(builder, (16, 64)))
    first, same, other = builder.outputs()
    assert first.tolist() == same.tolist()
    assert not (first == other).any()


def test_a_seed_may_be_a_float() -> None:
    builder = Builder()
    for value in (1.5, 1.5, -1.5):
        seed = builder.load(f"seed{value}{len(builder.body)}", np.array([[value]], np.float32))
        builder.add("set_rng_seed", {"src_seeds": seed})
        builder.store(drawn(builder, (1, 8)))
    first, same, other = builder.outputs()
    assert first.tolist() == same.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("target", "engine", "words"),
    [(TRN2, Engine.GPSIMD, 6), (TRN3, Engine.GPSIMD, 6), (TRN3, Engine.VECTOR, 24)],
)
def test_states_come_back_as_they_were_set(target: Target, engine: Engine, words: int) -> None:
    states = rng_for(0, "states").integers(0, 2**32, (64, words), np.uint32)
    builder = Builder(target)
    tile = builder.load("states", states)
    got = builder.tile((64, words), U32)
    builder.add("rand_set_state", {"src_seeds": tile}, engine=engine)
    builder.add("rand_get_state", {"dst": got}, engine=engine)
    builder.store(got)
    first = drawn(builder, (64, 7), engine=engine)
    builder.add("rand_set_state", {"src_seeds": got}, engine=engine)
    second = drawn(builder, (64, 7), engine=engine)
    builder.store(first)
    builder.store(second)
    back, numbers, again = builder.outputs()
    assert back.tolist() == states.tolist()
    assert numbers.tolist() == again.tolist()


def test_engines_have_states_of_their_own() -> None:
    one, both = Builder(), Builder()
    one.store(drawn(one, (8, 8), engine=Engine.GPSIMD))
    drawn(both, (8, 8), engine=Engine.VECTOR)
    both.store(drawn(both, (8, 8), engine=Engine.GPSIMD))
    assert one.outputs()[0].tolist() == both.outputs()[0].tolist()


@pytest.mark.parametrize("dtype", [F32, BF16, DType.INT16, I32, DType.FLOAT8_E5M2])
@pytest.mark.parametrize("prob", [0.0, 0.25, 1.0])
def test_dropout_zeroes_that_share_and_scales_nothing(dtype: DType, prob: float) -> None:
    data = np.full((128, 256), 3).astype(dtype.numpy_dtype)
    got = simulate("dropout", (data.shape, dtype), {"data": data, "prob": prob})
    got = got.astype(np.float32)
    assert set(np.unique(got)) <= {0.0, 3.0}
    assert float((got == 0).mean()) == pytest.approx(prob, abs=0.02)
    if prob in (0.0, 1.0):
        assert float((got == 0).mean()) == prob


def test_dropout_takes_a_probability_for_each_partition() -> None:
    data = rng_for(0, "drop").random((4, 1000), np.float32) + 1
    prob = np.array([[0.0], [0.1], [0.9], [1.0]], np.float32)
    got = simulate("dropout", (data.shape, F32), {"data": data, "prob": prob})
    assert (got == 0).mean(axis=1) == pytest.approx(prob[:, 0], abs=0.05)
    assert got[got != 0].tolist() == data[got != 0].tolist()


def test_dropout_keeps_integers_that_float32_cannot_hold() -> None:
    data = np.full((2, 4), 2**24 + 1, np.int32)
    got = simulate("dropout", ((2, 4), I32), {"data": data, "prob": 0.0})
    assert got.tolist() == data.tolist()


def test_dropout_with_an_unknown_probability_is_poison() -> None:
    data = np.ones((1, 4), np.float32)
    got = simulate("dropout", ((1, 4), F32), {"data": data, "prob": np.full((1, 1), np.nan, "f4")})
    assert bool(np.isnan(got).all())


def uniform(
    dtype: DType, low: float | Array, high: float | Array, shape: tuple[int, int] = (128, 256)
) -> Array:
    operands = {"min": low, "max": high}
    return simulate("rand2", (shape, dtype), operands, target=TRN3).astype(np.float64)


@pytest.mark.parametrize("dtype", [F32, BF16, DType.FLOAT16])
def test_rand2_is_uniform_between_its_bounds(dtype: DType) -> None:
    got = uniform(dtype, -1.0, 3.0)
    assert got.min() >= -1
    assert got.max() <= 3
    assert got.mean() == pytest.approx(1.0, abs=0.02)
    assert got.std() == pytest.approx(4 / np.sqrt(12), abs=0.02)


def test_rand2_rounds_to_integers() -> None:
    assert set(np.unique(uniform(DType.INT8, 0.0, 2.0))) == {0, 1, 2}


def test_rand2_takes_bounds_for_each_partition() -> None:
    low = np.array([[0.0], [10.0]], np.float32)
    got = uniform(F32, low, low + np.float32(1), (2, 500))
    assert bool(((got >= low) & (got <= low + 1)).all())


@pytest.mark.parametrize("low", [2.0, 2.5])
def test_rand2_without_a_range_is_poison_and_a_warning(low: float) -> None:
    builder = Builder(TRN3)
    dst = builder.tile((2, 4))
    builder.add("rand2", {"dst": dst, "min": low, "max": 2.0})
    builder.store(dst)
    result = builder.run()
    assert [f.code for f in result.findings] == ["NK506"]
    assert bool(np.isnan(result.outputs[0]).all())


def test_random_bits_can_go_to_psum_on_the_vector_engine() -> None:
    builder = Builder()
    dst = builder.tile((8, 16), U32, Memory.PSUM)
    builder.add("rng", {"dst": dst}, engine=Engine.VECTOR)
    builder.store(dst)
    assert len(np.unique(builder.outputs()[0])) == 128
