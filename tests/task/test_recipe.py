from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nki_agent.base.seeds import rng_for
from nki_agent.task.recipe import (
    Recipe,
    Strength,
    Variation,
    draw,
    draw_strength,
    infer_profile,
    separate,
    vary,
)

RNG = rng_for(0, "samples")
MASK = np.tril(np.ones((16, 16), dtype=np.uint8))
SAMPLES: dict[Recipe, NDArray[Any]] = {
    Recipe.NORMAL: RNG.standard_normal((40, 30), dtype=np.float32) * 3 + 1,
    Recipe.POSITIVE: RNG.random((40, 30), dtype=np.float32) * 5,
    Recipe.UNIT: RNG.random((40, 30), dtype=np.float32),
    Recipe.SIMPLEX: RNG.dirichlet(np.ones(30), 40).astype(np.float32),
    Recipe.WHOLE: RNG.integers(0, 40, (40, 30)).astype(np.float32),
    Recipe.LEVELS: MASK,
    Recipe.CONSTANT: np.ones(30, dtype=np.float32),
    Recipe.RANGE: RNG.integers(0, 9, (40, 30)).astype(np.int32),
    Recipe.UNIQUE: RNG.permutation(50).astype(np.int32),
    Recipe.SORTED: np.sort(RNG.integers(0, 20, 50)).astype(np.int32),
}
PLAIN = Strength(factor=1.0, shift=0.0)


@pytest.mark.parametrize("recipe", Recipe)
def test_sample_is_recognised_and_so_is_its_redraw(recipe: Recipe) -> None:
    sample = SAMPLES[recipe]
    profile = infer_profile(sample)
    assert profile.recipe is recipe
    drawn = draw(profile, sample, rng_for(1, "x"), strength=PLAIN)
    assert drawn.shape == sample.shape
    assert not np.array_equal(drawn, sample)
    if recipe is not Recipe.CONSTANT:
        assert infer_profile(drawn).recipe is recipe


@pytest.mark.parametrize("recipe", Recipe)
def test_draws_differ_by_seed_and_repeat_under_one(recipe: Recipe) -> None:
    sample = SAMPLES[recipe]
    profile = infer_profile(sample)
    first, again, other = (
        draw(profile, sample, rng_for(seed, "x"), strength=PLAIN) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_integers_stay_within_the_samples_bounds() -> None:
    for recipe in (Recipe.RANGE, Recipe.UNIQUE, Recipe.SORTED):
        sample = SAMPLES[recipe]
        drawn = draw(infer_profile(sample), sample, rng_for(1, "x"), strength=PLAIN)
        assert sample.min() <= drawn.min() <= drawn.max() <= sample.max()
        assert drawn.dtype == sample.dtype


def test_large_floats_are_no_counts() -> None:
    sample = SAMPLES[Recipe.NORMAL] * np.float32(1e12)
    assert infer_profile(sample).recipe is Recipe.NORMAL


@pytest.mark.parametrize("variation", Variation)
def test_whole_numbers_stay_whole(variation: Variation) -> None:
    sample = SAMPLES[Recipe.WHOLE]
    strength = Strength(factor=1.3, shift=0.2)
    varied = vary(sample.copy(), infer_profile(sample), variation=variation, strength=strength)
    assert np.array_equal(varied, sample)


def test_strictly_rising_offsets_stay_strict_between_their_ends() -> None:
    offsets = np.array([0, 5, 9, 30, 64], dtype=np.int32)
    drawn = draw(infer_profile(offsets), offsets, rng_for(1, "x"), strength=PLAIN)
    assert (drawn[0], drawn[-1]) == (0, 64)
    assert (np.diff(drawn) > 0).all()


def test_counting_integers_are_permuted() -> None:
    positions = np.arange(20, dtype=np.int32)
    profile = infer_profile(positions)
    assert profile.recipe is Recipe.UNIQUE
    drawn = draw(profile, positions, rng_for(1, "x"), strength=PLAIN)
    assert sorted(drawn) == list(range(20))


def test_mask_keeps_the_count_of_each_row() -> None:
    drawn = draw(infer_profile(MASK), MASK, rng_for(1, "x"), strength=PLAIN)
    assert (drawn.sum(axis=-1) == MASK.sum(axis=-1)).all()


def test_column_mask_is_permuted_along_its_long_axis() -> None:
    column = MASK[:, 5:6]
    drawn = draw(infer_profile(column), column, rng_for(1, "x"), strength=PLAIN)
    assert drawn.sum() == column.sum()
    assert not np.array_equal(drawn, column)


def test_additive_mask_with_infinities_is_levels() -> None:
    mask = np.where(MASK > 0, 0.0, -np.inf).astype(np.float32)
    assert infer_profile(mask).recipe is Recipe.LEVELS


def test_gains_keep_their_sign_and_biases_stay_small() -> None:
    gains, biases = np.full(5000, 2.0, dtype=np.float32), np.zeros(5000, dtype=np.float32)
    drawn = draw(infer_profile(gains), gains, rng_for(1, "x"), strength=PLAIN)
    assert 0.7 < drawn.min() < drawn.max() < 3.3
    drawn = draw(infer_profile(biases), biases, rng_for(1, "x"), strength=PLAIN)
    assert 0 < np.abs(drawn).max() < 0.31


def test_varied_normals_change_scale_and_mean() -> None:
    sample = SAMPLES[Recipe.NORMAL]
    strength = Strength(factor=1.2, shift=0.1)
    profile = infer_profile(sample)
    varied = vary(sample.copy(), profile, variation=Variation.FULL, strength=strength)
    assert varied.std() == pytest.approx(1.2 * sample.std(), rel=1e-4)
    assert varied.mean() == pytest.approx(1.2 * (sample.mean() + 0.1 * sample.std()), rel=1e-3)


def test_varied_values_keep_their_kind() -> None:
    strength = Strength(factor=1.4, shift=-0.25)
    for recipe in Recipe:
        sample = SAMPLES[recipe]
        varied = vary(
            sample.copy(), infer_profile(sample), variation=Variation.FULL, strength=strength
        )
        assert infer_profile(varied).recipe is recipe


def test_shrinking_never_leaves_the_samples_range() -> None:
    sample = SAMPLES[Recipe.NORMAL]
    profile = infer_profile(sample)
    strength = Strength(factor=1.4, shift=0.25)
    varied = vary(sample.copy(), profile, variation=Variation.SHRINK, strength=strength)
    assert np.array_equal(varied, sample)


def test_strengths_cover_their_range() -> None:
    strengths = [draw_strength(rng_for(seed, "x")) for seed in range(200)]
    factors, shifts = [s.factor for s in strengths], [s.shift for s in strengths]
    assert 0.7 <= min(factors) < 0.75
    assert 1.35 < max(factors) <= 1.4
    assert -0.25 <= min(shifts) < -0.2
    assert 0.2 < max(shifts) <= 0.25


def test_separated_rows_keep_their_order_and_nearly_their_values() -> None:
    given = np.array(
        [[1.0, 0.0, 1.0, -0.0, 1.0, -2.0], [3.0, 1.0, 2.0, 4.0, 5.0, 6.0]], dtype=np.float32
    )
    found = separate(given.copy())
    ordered = np.sort(found, axis=1)
    assert (ordered[:, 1:] > ordered[:, :-1]).all()
    assert np.allclose(found, given, rtol=1e-6, atol=1e-30)
    assert np.array_equal(found[1], given[1])
    assert not ((found != 0) & (np.abs(found) < np.finfo(np.float32).tiny)).any()


@pytest.mark.parametrize("seed", range(8))
def test_whole_numbers_hold_both_ends_of_their_range(seed: int) -> None:
    sample = np.array([0, 999, 5], dtype=np.int32)
    drawn = draw(
        infer_profile(sample[[0, 1, 1, 2]]),
        sample[[0, 1, 1, 2]],
        rng_for(seed, "x"),
        strength=PLAIN,
    )
    assert {0, 999} <= set(drawn.tolist())
