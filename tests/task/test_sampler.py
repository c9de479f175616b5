import numpy as np
import pytest

from nki_agent.base.errors import TaskError
from nki_agent.task.family import Family, FamilyScale
from nki_agent.task.sampler import UserSampler
from nki_agent.task.trial import make_trials
from tests.task.conftest import Load

MIXED = """
def reference(x, p, mask, gain, index, code):
    return (x * p + gain) * mask + index + code.to(torch.float32)

def inputs():
    return [
        torch.randn(6, 8),
        torch.rand(6, 8),
        (torch.rand(6, 8) > 0.5).float(),
        torch.rand(1) + 2,
        torch.randint(0, 5, (6, 8)),
        torch.randn(6, 8).to(torch.float8_e4m3fn),
    ]
"""


def test_only_reals_with_a_scale_are_scaled(load_torch: Load) -> None:
    task = load_torch(MIXED)
    sampler = task.dev.sampler
    plain = sampler.draw(3, FamilyScale())
    big = sampler.draw(3, FamilyScale(factor=8.0))
    assert np.allclose(big["x"], plain["x"] * 8, rtol=1e-6)
    for name in ("p", "mask", "gain", "index", "code"):
        assert np.array_equal(big[name], plain[name])


def test_offset_shrinks_with_a_small_deviation(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x):
            return torch.softmax(x, -1)

        def inputs():
            return [torch.randn(50, 60) * 0.1]
    """)
    big = next(t for t in make_trials(task, 1) if t.family is Family.BIG)
    means = np.median(big.inputs(task)["x"], axis=-1)
    assert np.all(np.minimum(np.abs(means - 6), np.abs(means + 250)) < 2)
    assert (means < 0).sum() == 25


def test_argument_draws_do_not_depend_on_each_other(load_torch: Load) -> None:
    task = load_torch(MIXED)
    sampler = task.dev.sampler
    assert isinstance(sampler, UserSampler)
    alone = sampler.with_sources(tuple(s for s in sampler.sources if s.name == "x"))
    plain = FamilyScale()
    assert np.array_equal(alone.draw(3, plain)["x"], sampler.draw(3, plain)["x"])


def test_shape_that_follows_the_seed_is_refused_at_the_trial(load_numpy: Load) -> None:
    task = load_numpy("""
        calls = []

        def reference(x):
            return x * 2

        def inputs(rng):
            calls.append(1)
            return [rng.standard_normal((9, 5 if len(calls) < 30 else 6), dtype=np.float32)]
    """)
    trials = [make_trials(task, seed)[0] for seed in range(40)]
    with pytest.raises(TaskError, match=r"`x` has the shape \[9, 6\] in one call"):
        [trial.inputs(task) for trial in trials]


@pytest.mark.parametrize("num_rows", [1, 4, 50])
def test_spikes_stand_in_a_quarter_of_the_rows_one_each(load_torch: Load, num_rows: int) -> None:
    task = load_torch(f"""
        def reference(x):
            return torch.softmax(x, -1)

        def inputs():
            return [torch.randn({num_rows}, 60)]
    """)
    sampler = task.dev.sampler
    flat = sampler.draw(3, FamilyScale(offset=60.0))["x"]
    moved = sampler.draw(3, FamilyScale(offset=60.0, spike=200.0))["x"] - flat
    size = np.abs(moved[moved != 0])
    assert np.count_nonzero(moved.any(axis=1)) == np.count_nonzero(moved) == -(-num_rows // 4)
    assert (size > 150).all()
    assert moved.max() > 0
