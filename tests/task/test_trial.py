from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nki_agent.base.errors import TaskError
from nki_agent.task.family import Family
from nki_agent.task.loader import load_task
from nki_agent.task.reference import Precision
from nki_agent.task.task import Task
from nki_agent.task.trial import arrange, compare_outputs, expected, make_trials
from tests.source import ROOT
from tests.task.conftest import Load

NORM = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(96))
        self.bias = nn.Parameter(torch.zeros(96))
        self.register_buffer("running_var", torch.ones(96))

    def forward(self, x):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return y * self.weight * torch.rsqrt(self.running_var) + self.bias

def get_inputs():
    return [torch.randn(40, 96)]
"""


Arrays = dict[str, NDArray[Any]]


def run_own(task: Task, inputs: Arrays) -> Arrays:
    results = arrange(task.dev, task.dev.reference.run(inputs, precision=Precision.OWN))
    return {o.name: results[o.name].astype(o.dtype.numpy_dtype) for o in task.dev.results}


def test_trials_are_three_standard_one_big_one_tiny(load_torch: Load) -> None:
    families = [trial.family for trial in make_trials(load_torch(NORM), 1)]
    assert families == [Family.STANDARD] * 3 + [Family.BIG, Family.TINY]


def test_trial_gives_the_same_bytes_again_and_others_under_another_seed(load_torch: Load) -> None:
    task = load_torch(NORM)
    first, again, other = (make_trials(task, seed)[0].inputs(task) for seed in (1, 1, 2))
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first)


def test_trial_of_the_standard_family_does_not_depend_on_earlier_draws(load_torch: Load) -> None:
    task = load_torch(NORM)
    trials = make_trials(task, 1)
    alone = trials[2].inputs(task)
    for trial in trials:
        trial.inputs(task)
    assert trials[2].inputs(task)["x"].tobytes() == alone["x"].tobytes()


def test_weights_differ_between_trials_and_from_their_start(load_torch: Load) -> None:
    task = load_torch(NORM)
    draws = [trial.inputs(task) for trial in make_trials(task, 1)]
    for name, start in (("weight", 1.0), ("bias", 0.0), ("running_var", 1.0)):
        values = [draw[name] for draw in draws]
        # In a tiny trial a bias is tiny as well.
        assert all(np.abs(value - start).mean() > 0.03 for value in values[:-1])
        assert not any(np.array_equal(values[0], value) for value in values[1:])
    assert all((draw["running_var"] > 0).all() for draw in draws)


def test_kernel_with_hard_coded_start_weights_is_wrong_in_every_trial(load_torch: Load) -> None:
    task = load_torch(NORM)
    for trial in make_trials(task, 1):
        inputs = trial.inputs(task)
        wanted = expected(task, inputs)
        inputs["weight"] = np.ones(96, dtype=np.float32)
        found = compare_outputs(task, trial, wanted, run_own(task, inputs))
        assert not found["output"].right


def test_big_and_tiny_trials_scale_inputs_and_leave_weights(load_torch: Load) -> None:
    task = load_torch(NORM)
    draws = {trial.family: trial.inputs(task) for trial in make_trials(task, 1)}
    assert np.abs(draws[Family.BIG]["x"]).mean() > 3
    assert np.abs(draws[Family.TINY]["x"]).mean() < 3e-3
    assert 0.5 < np.abs(draws[Family.BIG]["weight"]).mean() < 1.5


def test_standard_trials_have_no_known_mean_or_scale(load_torch: Load) -> None:
    task = load_torch(NORM)
    inputs = [make_trials(task, seed)[0].inputs(task)["x"] for seed in range(6)]
    assert np.ptp([x.std() for x in inputs]) > 0.1
    assert np.ptp([x.mean() for x in inputs]) > 0.05


def test_global_generators_are_left_as_they_were(load_torch: Load) -> None:
    task = load_torch(NORM)
    torch_state = torch.get_rng_state()
    numpy_state = repr(np.random.get_state())  # noqa: NPY002 - the generator that user code draws from
    make_trials(task, 1)[0].inputs(task)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert repr(np.random.get_state()) == numpy_state  # noqa: NPY002 - as above


def test_expected_is_in_float64_and_leaves_inputs_unchanged(load_torch: Load) -> None:
    task = load_torch(NORM)
    inputs = make_trials(task, 1)[0].inputs(task)
    before = {name: array.tobytes() for name, array in inputs.items()}
    wanted = expected(task, inputs)["output"]
    assert wanted.dtype == np.float64
    assert {name: array.tobytes() for name, array in inputs.items()} == before
    own = run_own(task, inputs)["output"]
    assert 0 < np.abs(wanted - own).max() < 1e-5


def test_updated_input_is_expected_after_the_outputs(load_torch: Load) -> None:
    task = load_torch("""
        UPDATES = ("cache",)

        def reference(cache, new, row: int):
            cache[row] = new
            return new * 2

        def inputs():
            return [torch.randn(6, 4), torch.randn(4), 3]
    """)
    inputs = make_trials(task, 1)[0].inputs(task)
    wanted = expected(task, inputs)
    assert list(wanted) == ["output", "cache"]
    assert np.array_equal(wanted["cache"][3], inputs["new"])
    assert np.array_equal(wanted["cache"][2], inputs["cache"][2])


def test_update_shows_on_drawn_values_where_the_file_gives_zeros(load_numpy: Load) -> None:
    task = load_numpy("""
        UPDATES = ("cache",)

        def reference(cache, new):
            cache += new

        def inputs():
            return [np.zeros((6, 4), np.float32), np.zeros((6, 4), np.float32)]
    """)
    assert task.updates == ("cache",)


def test_bfloat16_arrays_carry_the_ml_dtypes_format(load_torch: Load) -> None:
    task = load_torch('DTYPE = "bfloat16"\n' + NORM)
    inputs = make_trials(task, 1)[0].inputs(task)
    assert {array.dtype for array in inputs.values()} == {np.dtype(ml_dtypes.bfloat16)}


def test_mask_and_index_inputs_keep_their_kind(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x, mask, index):
            return torch.softmax(x.masked_fill(~mask, -torch.inf), -1)[index]

        def inputs():
            mask = torch.tril(torch.ones(16, 16, dtype=torch.bool))
            return [torch.randn(16, 16), mask, torch.randint(0, 16, (8,))]
    """)
    draws = [trial.inputs(task) for trial in make_trials(task, 1)]
    for draw in draws:
        assert (np.sort(draw["mask"].sum(axis=-1)) == np.arange(1, 17)).all()
        assert 0 <= draw["index"].min() <= draw["index"].max() < 16
    assert not np.array_equal(draws[0]["mask"], draws[1]["mask"])
    assert not np.array_equal(draws[0]["index"], draws[1]["index"])


def test_output_shape_that_follows_values_is_refused(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x, count):
            return x[: int(count.max())]

        def inputs():
            return [torch.randn(6, 4), torch.tensor([3])]
    """)
    inputs = make_trials(task, 1)[0].inputs(task)
    inputs["count"][:] = 2
    with pytest.raises(TaskError, match=r"gives `output` the shape \[2, 4\] on these values"):
        expected(task, inputs)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_example_is_right_for_its_own_reference_and_wrong_for_stale_or_constant(path: Path) -> None:
    task = load_task(path)
    stale: Arrays | None = None
    for trial in make_trials(task, 5):
        inputs = trial.inputs(task)
        wanted = expected(task, inputs)
        own = run_own(task, inputs)
        assert all(c.right for c in compare_outputs(task, trial, wanted, own).values())
        constant = {
            name: np.full_like(array, array.astype(np.float64).mean())
            for name, array in own.items()
        }
        for wrong in (constant, stale or constant):
            found = compare_outputs(task, trial, wanted, wrong)
            assert min(c.ratio for c in found.values()) > 10
        stale = own


POSITIVE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.{layer}

    def forward(self, x):
        return torch.relu(self.layer(x))

def get_inputs():
    return [torch.rand({shape})]
"""


@pytest.mark.parametrize(
    ("layer", "shape"),
    [("Linear(512, 64)", "64, 512"), ("Conv2d(64, 64, 3)", "2, 64, 8, 8")],
)
def test_mean_of_weights_never_drowns_their_spread(
    load_torch: Load, layer: str, shape: str
) -> None:
    task = load_torch(POSITIVE.replace("{layer}", layer).replace("{shape}", shape))
    for seed in range(8):
        for trial in make_trials(task, seed):
            positive = (expected(task, trial.inputs(task))["output"] > 0).mean()
            assert 0.05 < positive < 0.95
