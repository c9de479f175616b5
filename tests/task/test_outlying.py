"""What leaves out a part of a row, or of the keys, meets an outlier there."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nki_agent.base.seeds import rng_for
from nki_agent.task.family import Family
from nki_agent.task.outlying import SPIKED_ROWS, TILE, Lane, add_outliers
from nki_agent.task.task import Task
from nki_agent.task.trial import compare_outputs, expected, make_trials
from tests.task.conftest import Load

Array = NDArray[Any]
SEEDS = range(5)
NUM_KEYS = 256
SCALE = 32**-0.5
ATTENTION = f"""
DTYPE = "{{dtype}}"

def reference(q, k, v):
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v

def inputs():
    return [torch.randn(2, n, 32) for n in (130, {NUM_KEYS}, {NUM_KEYS})]
"""
LINEAR = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.classes = nn.Linear(96, 300, bias=False)

    def forward(self, x):
        return functional.{name}(self.classes(x), -1)

def get_inputs():
    return [torch.randn(130, 96)]
"""
ROWS = """
def reference(x):
    return {what}

def inputs():
    return [torch.randn(130, 512)]
"""
# Parts of an axis that a kernel with a fault may leave out.
PARTS: dict[str, Callable[[int], slice]] = {
    "last eighth": lambda size: slice(0, size - size // 8),
    "last 12": lambda _: slice(0, -12),
    "last": lambda _: slice(0, -1),
    "first": lambda _: slice(1, None),
    "all but the first tile": lambda _: slice(0, TILE),
    "first tile": lambda _: slice(TILE, None),
}


def count_wrong(
    task: Task,
    output: Callable[..., Array],
    seeds: range = SEEDS,
    *,
    family: Family = Family.BIG,
) -> int:
    """Seeds whose trial of the family shows that the output is wrong."""
    wrong = 0
    for seed in seeds:
        trial = next(t for t in make_trials(task, seed) if t.family is family)
        inputs = trial.inputs(task)
        wanted = expected(task, inputs)
        floats = {name: array.astype(np.float32) for name, array in inputs.items()}
        name, dtype = task.outputs[0].name, task.outputs[0].dtype.numpy_dtype
        with np.errstate(all="ignore"):
            got = np.asarray(output(**floats)).astype(dtype)
        wrong += not compare_outputs(task, trial, wanted, {name: got})[name].right
    return wrong


def softmax(x: Array, part: slice = slice(None)) -> Array:
    e = np.exp(x - x[..., part].max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def log_softmax(x: Array, part: slice = slice(None)) -> Array:
    shifted = x - x[..., part].max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("part", PARTS)
def test_attention_with_the_maximum_of_a_part_of_the_keys_is_wrong(
    load_torch: Load, dtype: str, part: str
) -> None:
    task = load_torch(ATTENTION.format(dtype=dtype))
    keys = PARTS[part](NUM_KEYS)
    wrong = count_wrong(task, lambda q, k, v: softmax(q @ k.swapaxes(1, 2) * SCALE, keys) @ v)
    assert wrong == len(SEEDS)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_honest_attention_is_right_among_outliers(load_torch: Load, dtype: str) -> None:
    task = load_torch(ATTENTION.format(dtype=dtype))
    seeds = range(24)
    assert count_wrong(task, lambda q, k, v: softmax(q @ k.swapaxes(1, 2) * SCALE) @ v, seeds) == 0


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("part", PARTS)
def test_classes_with_the_maximum_of_a_part_of_them_are_mostly_wrong(
    load_torch: Load, name: str, part: str
) -> None:
    task = load_torch(LINEAR.format(name=name))
    run, classes = {"softmax": softmax, "log_softmax": log_softmax}[name], PARTS[part](300)
    weight = task.tensors[1].name
    assert count_wrong(task, lambda x, **w: run(x @ w[weight].T)) == 0
    wrong = count_wrong(task, lambda x, **w: run(x @ w[weight].T, classes))
    assert wrong >= len(SEEDS) - 1  # a class may have its outlier where no input is large


@pytest.mark.parametrize(
    ("what", "run"),
    [
        ("torch.softmax(x, -1)", softmax),
        ("x.amax(-1)", lambda x, part: x[..., part].max(-1)),
        ("x.abs().amax(-1)", lambda x, part: np.abs(x[..., part]).max(-1)),
        ("x.sum(-1).to(torch.bfloat16)", lambda x, part: x[..., part].sum(-1)),
        (
            "(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)).to(torch.bfloat16)",
            lambda x, part: (
                x / np.sqrt(np.square(x[..., part]).sum(-1, keepdims=True) / x.shape[-1] + 1e-6)
            ),
        ),
    ],
)
@pytest.mark.parametrize("part", [*PARTS, "beside a border", "behind a border"])
def test_reduction_of_a_part_of_a_row_is_wrong(
    load_torch: Load, what: str, run: Callable[[Array, Any], Array], part: str
) -> None:
    task = load_torch(ROWS.format(what=what))
    columns: Any = PARTS[part](512) if part in PARTS else None
    if columns is None:
        left_out = 2 * TILE - (part == "beside a border")
        columns = np.delete(np.arange(512), left_out)
    assert count_wrong(task, lambda x: run(x, slice(None))) == 0
    assert count_wrong(task, lambda x: run(x, columns)) == len(SEEDS)


@pytest.mark.parametrize(
    ("what", "run"),
    [
        (
            "x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-12)",
            lambda x: x / np.sqrt(np.square(x).sum(-1, keepdims=True)),
        ),
        (
            "x / x.abs().amax(-1, keepdim=True).clamp(min=1e-9)",
            lambda x: x / np.abs(x).max(-1, keepdims=True),
        ),
    ],
)
def test_row_of_zeros_shows_that_nothing_keeps_a_divisor_from_zero(
    load_torch: Load, what: str, run: Callable[[Array], Array]
) -> None:
    task = load_torch(ROWS.format(what=what))
    assert count_wrong(task, run, family=Family.TINY) == len(SEEDS)


def test_equal_values_show_which_comparison_it_is(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x, limit):
            return (x > limit[:, None]).sum(1).to(torch.int32)

        def inputs():
            return [torch.randn(60, 90), torch.randn(60)]
    """)
    strictly = count_wrong(task, lambda x, limit: (x > limit[:, None]).sum(1))
    loosely = count_wrong(task, lambda x, limit: (x >= limit[:, None]).sum(1))
    assert (strictly, loosely) == (0, len(SEEDS))


@pytest.mark.parametrize("what", ["x.argmax(-1)", "x.sort(-1)[1]", "x.topk(4)[1]"])
def test_places_in_an_order_are_asked_of_no_equal_values(load_torch: Load, what: str) -> None:
    task = load_torch(ROWS.format(what=what))
    for trial in make_trials(task, 1):
        rows = np.sort(trial.inputs(task)["x"], axis=-1)
        if trial.family is not Family.STANDARD:
            assert (rows[:, 1:] != rows[:, :-1]).mean() > 0.99


@pytest.mark.parametrize("shape", [(1,), (1, 1), (3,), (2, 3), (130, 300), (2, 3, 65, 32)])
def test_one_row_in_four_has_one_outlier_each(shape: tuple[int, ...]) -> None:
    values = np.zeros(shape, dtype=np.float32)
    add_outliers(values, 100.0, rng_for(1, "places"))
    rows = values.reshape(-1, shape[-1])
    num_outliers = -(-len(rows) // SPIKED_ROWS)
    assert np.count_nonzero(rows) == np.count_nonzero(rows.any(axis=1)) == num_outliers
    assert values.max() == 100.0


def test_columns_of_two_inputs_never_meet() -> None:
    columns = []
    for number in range(3):
        values = np.zeros((200, 64), dtype=np.float32)
        add_outliers(values, 1.0, rng_for(2, number), lane=Lane(number=number, count=3))
        columns.append(set(np.flatnonzero(values.any(axis=0)).tolist()))
    assert not columns[0] & columns[1]
    assert not columns[1] & columns[2]
    assert {0, 63} <= set.union(*columns)


NORMED = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(48, dtype=torch.bfloat16))
        self.queries = nn.Linear(48, 48, bias=False, dtype=torch.bfloat16)
        self.keys = nn.Linear(48, 48, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        hidden = functional.rms_norm(x, x.shape[-1:], self.gain, eps=1e-6)
        scores = self.queries(hidden) @ self.keys(hidden).mT * 48**-0.5
        return torch.softmax(scores, -1) @ hidden

def get_inputs():
    return [torch.randn(2, 96, 48, dtype=torch.bfloat16)]
"""
ROUTER = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.Linear(64, 6, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        scores, _ = (x @ self.experts.weight.mT).float().topk(2, -1)
        return torch.softmax(scores, -1)

def get_inputs():
    return [torch.randn(80, 64, dtype=torch.bfloat16)]
"""


def exponentials(x: Array, top: Array) -> Array:
    e = np.exp(x - top)
    return np.asarray(e / e.sum(-1, keepdims=True))


TOPS: dict[str, Callable[[Array], Array]] = {
    "none": lambda x: np.zeros_like(x[..., :1]),
    "the mean": lambda x: x.mean(-1, keepdims=True),
    "of all rows": lambda x: np.broadcast_to(x.max(), x[..., :1].shape),
    "the right one": lambda x: x.max(-1, keepdims=True),
}


@pytest.mark.parametrize("top", TOPS)
def test_maximum_is_needed_behind_a_norm_too(load_torch: Load, top: str) -> None:
    task = load_torch(NORMED)
    names = [tensor.name for tensor in task.tensors]

    def run(**given: Array) -> Array:
        x, gain, queries, keys = (given[name] for name in names)
        hidden = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-6) * gain
        scores = (hidden @ queries.T) @ (hidden @ keys.T).swapaxes(1, 2) * 48**-0.5
        return np.asarray(exponentials(scores, TOPS[top](scores)) @ hidden)

    assert count_wrong(task, run) == (0 if top == "the right one" else len(SEEDS))


@pytest.mark.parametrize("top", ["none", "of all rows", "the right one"])
def test_maximum_is_needed_where_the_largest_are_chosen(load_torch: Load, top: str) -> None:
    task = load_torch(ROUTER)
    names = [tensor.name for tensor in task.tensors]

    def run(**given: Array) -> Array:
        x, experts = (given[name] for name in names)
        scores = -np.sort(-(x @ experts.T), axis=-1)[..., :2]
        return exponentials(scores, TOPS[top](scores))

    assert count_wrong(task, run) == (0 if top == "the right one" else len(SEEDS))


NORM_OF_SUM = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 80)

    def forward(self, x):
        return functional.layer_norm(self.linear(x), (80,), eps=1e-5)

def get_inputs():
    return [torch.randn(70, 64)]
"""
STEP = """
def reference(weight, grad, second):
    return weight - grad / (torch.sqrt(second) + 1e-8)

def inputs():
    return [torch.randn(40, 64), torch.randn(40, 64), torch.rand(40, 64) + 0.1]
"""


def test_epsilon_shows_behind_a_bias(load_torch: Load) -> None:
    task = load_torch(NORM_OF_SUM)
    names = [tensor.name for tensor in task.tensors]

    def run(epsilon: float, **given: Array) -> Array:
        x, weight, bias = (given[name] for name in names)
        hidden = x @ weight.T + bias
        centred = hidden - hidden.mean(-1, keepdims=True)
        return np.asarray(centred / np.sqrt(hidden.var(-1, keepdims=True) + epsilon))

    for epsilon, wrong in ((1e-5, 0), (0.0, len(SEEDS)), (1e-6, len(SEEDS))):
        found = count_wrong(task, lambda **a: run(epsilon, **a), family=Family.TINY)  # noqa: B023
        assert found == wrong


def test_squares_that_are_zero_show_that_nothing_is_added_to_their_root(load_torch: Load) -> None:
    task = load_torch(STEP)

    def run(weight: Array, grad: Array, second: Array, epsilon: float) -> Array:
        return np.asarray(weight - grad / (np.sqrt(second) + np.float32(epsilon)))

    tiny = Family.TINY
    assert count_wrong(task, lambda **a: run(**a, epsilon=1e-8), family=tiny) == 0
    assert count_wrong(task, lambda **a: run(**a, epsilon=0.0), family=tiny) == len(SEEDS)
