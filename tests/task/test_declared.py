"""Task files that declare their tensors and sizes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from nki_agent.task.declaration import Size, read_declaration
from nki_agent.task.family import Family
from nki_agent.task.loader import load_task
from nki_agent.task.named_recipe import RECIPES, NamedRecipe
from nki_agent.task.recipe import STANDARD_STRENGTH
from nki_agent.task.task import Scope, Task, TensorKind
from nki_agent.task.trial import expected, make_trials

SOURCE = '''"""RMSNorm over the features of each row, then a linear layer."""

import torch
from torch import nn

SHAPES = {
    "dev": {"M": 13, "K": 20, "N": 30},
    "odd": {"M": 7, "K": 15, "N": 11},
    "perf": {"M": 2048, "K": 1024, "N": 4096},
}
INPUTS = {"x": "bfloat16[M, K]"}
PARAMETERS = {"gain": "bfloat16[K] gain", "weight": "bfloat16[K, N] weight"}
OUTPUTS = {"y": "bfloat16[M, N]"}
TOLERANCE = "B2"


class Model(nn.Module):
    def __init__(self, K: int, N: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(K, dtype=torch.bfloat16))
        self.weight = nn.Parameter(torch.empty(K, N, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
        return (x * scale * self.gain) @ self.weight
'''
FUNCTION = """import torch

SHAPES = {"dev": {"T": 12, "V": 9, "D": 5}}
INPUTS = {"i": "int32[T] index(V)", "w": "float32[V, D]"}
OUTPUTS = {"y": "float32[T, D]"}


def reference(i, w):
    return w[i.long()]
"""
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(source: str) -> Path:
        path = tmp_path / "rmsnorm_linear.py"
        path.write_text(source)
        return path

    return write_file


@pytest.fixture
def task(write: Write) -> Task:
    return load_task(write(SOURCE))


def test_declared_task_has_its_shape_sets(task: Task) -> None:
    assert [s.name for s in task.shape_sets] == ["dev", "odd", "perf"]
    assert [s.name for s in task.shape_sets_in(Scope.PROOF)] == ["dev", "odd"]
    assert [a.shape for a in task.perf.tensors] == [(2048, 1024), (1024,), (1024, 4096)]
    assert task.perf.outputs[0].shape == (2048, 4096)
    assert [a.kind for a in task.tensors] == [
        TensorKind.INPUT,
        TensorKind.PARAMETER,
        TensorKind.PARAMETER,
    ]


def test_declared_work_is_counted_at_perf_without_data(task: Task) -> None:
    assert task.work.matmul_flops == 2 * 2048 * 1024 * 4096
    assert task.work.min_hbm_bytes == 2 * (2048 * 1024 + 1024 + 1024 * 4096 + 2048 * 4096)


def test_declared_work_can_be_replaced(write: Write) -> None:
    task = load_task(write(f"{SOURCE}\nMATMUL_FLOPS = '2 * M * K'\nMIN_HBM_BYTES = 'M + 1'\n"))
    assert (task.work.matmul_flops, task.work.min_hbm_bytes) == (2 * 2048 * 1024, 2049)


@pytest.mark.parametrize("name", ["dev", "odd"])
def test_declared_reference_runs_at_each_shape_set(task: Task, name: str) -> None:
    for trial in make_trials(task, 3, shapes=name):
        inputs = trial.inputs(task)
        wanted = expected(task, inputs, shapes=name)["y"]
        x, gain, weight = (inputs[n].astype(np.float64) for n in ("x", "gain", "weight"))
        scale = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6)
        assert np.allclose(wanted, (x * scale * gain) @ weight)


def test_families_scale_inputs_and_leave_parameters(task: Task) -> None:
    by_family = {t.family: t.inputs(task) for t in make_trials(task, 5)}
    tiny, standard = by_family[Family.TINY], by_family[Family.STANDARD]
    assert np.abs(tiny["x"].astype(np.float32)).max() < 0.01
    assert 0.5 < tiny["gain"].astype(np.float32).mean() < 1.5
    assert standard["x"].dtype == DType.BFLOAT16.numpy_dtype


def test_function_can_be_declared(write: Write) -> None:
    task = load_task(write(FUNCTION))
    assert task.perf is task.dev
    inputs = make_trials(task, 1)[0].inputs(task)
    assert inputs["i"].dtype == np.int32
    assert inputs["i"].min() >= 0
    assert inputs["i"].max() < 9
    assert np.array_equal(expected(task, inputs)["y"], inputs["w"][inputs["i"]])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("bfloat16[M, K]", "bfloat17[M, K]", "the dtype `bfloat17`"),
        ("bfloat16[K] gain", "bfloat16[K] gains", "recipe"),
        ("bfloat16[K] gain", "int32[K] gain", "gives reals"),
        ("bfloat16[M, K]", "bfloat16(M, K)", "is declared as"),
        ("bfloat16[M, K]", "bfloat16[M, Q]", "`Q` is no size"),
        ("bfloat16[M, K]", "bfloat16[M, K - K]", "a shape is"),
        ("bfloat16[M, K]", "bfloat16[M, K // 0]", "`K // 0` is no size"),
        ("bfloat16[M, K]", "bfloat16[M, __import__('os')]", "is no size"),
        ("bfloat16[M, N]", "float32[M, N]", "the reference gives"),
        ("bfloat16[M, N]", "bfloat16[M, N] weight", "has a recipe"),
        ("bfloat16[M, N]", "bfloat16[N, M]", "the reference gives"),
        ('"gain": "bfloat16[K] gain", ', "", "`gain` is in the module"),
        (
            'PARAMETERS = {"gain"',
            'PARAMETERS = {"bias": "bfloat16[K]", "gain"',
            "`bias` is in PARA",
        ),
        ("bfloat16[K, N] weight", "bfloat16[N, K] weight", "in the module, but"),
        ("K: int, N: int", "K: int, N: int, Q: int", "the constructor takes `Q`"),
        ('"odd": {"M": 7,', '"odd": {"L": 7,', "does not name the sizes"),
        ('"dev": {"M": 13', '"dev": {"M": 0', "`M` of `dev` is 0"),
        ('"dev": {"M": 13', '"dev": {"M": 1.5', "`M` of `dev` is 1.5"),
        ('"dev"', '"development"', "has not the form"),
        ('OUTPUTS = {"y": "bfloat16[M, N]"}', "", "but no OUTPUTS"),
        ("return (x * scale", "return (float(x.sum()) * scale", "raised"),
    ],
)
def test_bad_declaration_is_named(write: Write, old: str, new: str, said: str) -> None:
    assert old in SOURCE
    with pytest.raises(TaskError) as caught:
        load_task(write(SOURCE.replace(old, new, 1)))
    assert said in str(caught.value)


def test_sizes_are_whole_numbers_of_names() -> None:
    assert Size("2 * H + N // 3 - 1").value({"H": 4, "N": 7}) == 9
    declared = read_declaration("int32[ B , 2*H ] index(V)", what="x")
    assert declared.shape_at({"B": 2, "H": 3, "V": 5}) == (2, 6)


def test_output_is_declared_in_the_chips_form_of_8_bit_floats(write: Write) -> None:
    source = FUNCTION.replace("float32[T, D]", "float8_e4m3[T, D]")
    cast = "w[i.long()].clamp(-240, 240).to(torch.float8_e4m3fn)"
    task = load_task(write(source.replace("w[i.long()]", cast)))
    (output,) = task.outputs
    assert output.dtype is DType.FLOAT8_E4M3
    wanted = expected(task, make_trials(task, 0)[0].inputs(task))[output.name]
    assert np.array_equal(wanted.astype(DType.FLOAT8_E4M3.numpy_dtype).astype(float), wanted)


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_follows_its_generator_alone(name: str) -> None:
    bounds = {0: (), 1: (40,), 2: (40, 64)}[RECIPES[name].num_bounds]
    recipe = NamedRecipe(name=name, bounds=(4,) if name == "segments" else bounds)
    shape = (2, 4) if name == "adam" else (2, 16)

    def draw(seed: int) -> np.ndarray:
        rng = np.random.Generator(np.random.SFC64(seed))
        return recipe.draw(rng, shape, strength=STANDARD_STRENGTH)

    first, again, other = draw(1), draw(1), draw(2)
    assert first.shape == shape
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert (first.dtype == np.int64) == RECIPES[name].is_whole
    assert np.isfinite(first).all()


def test_rotary_tables_of_a_trial_belong_together(write: Write) -> None:
    source = (
        FUNCTION.replace(
            '"w": "float32[V, D]"',
            '"w": "float32[V, D]", "c": "float32[V, D] cosine", "s": "float32[V, D] sine"',
        )
        .replace("(i, w):", "(i, w, c, s):")
        .replace("return w", "return (w * c + s)")
    )
    inputs = make_trials(load_task(write(source)), 1)[0].inputs(load_task(write(source)))
    assert np.allclose(inputs["c"] ** 2 + inputs["s"] ** 2, 1)


def test_weight_codes_times_their_scale_keep_the_size_of_a_sum() -> None:
    """A quantised layer that gave a hundredth of its input could be left out of a residual sum."""
    shape = (256, 300)
    strength = STANDARD_STRENGTH
    codes = NamedRecipe(name="weight_codes").draw(rng_for(1, "w"), shape, strength=strength)
    scale = NamedRecipe(name="scale").draw(rng_for(1, "s"), shape[1:], strength=strength)
    x = rng_for(1, "x").standard_normal((100, shape[0]))
    assert 0.7 < np.std(x @ (codes * scale)) < 1.4
    assert np.abs(codes).max() < 240


def test_mask_keeps_one_in_each_row() -> None:
    recipe = NamedRecipe(name="mask")
    rng = np.random.Generator(np.random.SFC64(3))
    mask = recipe.draw(rng, (2, 500, 3), strength=STANDARD_STRENGTH)
    assert set(np.unique(mask)) == {0, 1}
    assert mask.any(axis=-1).all()


def test_rows_of_an_index_task_hold_no_value_twice(write: Write) -> None:
    source = """import torch

SHAPES = {"dev": {"M": 40, "N": 4000}, "perf": {"M": 60, "N": 5000}}
INPUTS = {"x": "float32[M, N]"}
OUTPUTS = {"order": "int32[M, N]"}
TOLERANCE = "IX"


def reference(x):
    return x.argsort(1).to(torch.int32)
"""
    task = load_task(write(source))
    for trial in (*make_trials(task, 2), *make_trials(task, 2, shapes="perf")):
        ordered = np.sort(trial.inputs(task)["x"], axis=1)
        assert (ordered[:, 1:] > ordered[:, :-1]).all()


def test_tasks_are_loaded_and_run_by_several_threads(write: Write) -> None:
    path = write(SOURCE.replace(", dtype=torch.bfloat16", "").replace("bfloat16", "float32"))
    other = path.with_name("other.py")
    other.write_text(path.read_text())

    def work(file: Path) -> np.ndarray:
        task = load_task(file)
        trial = make_trials(task, 3)[0]
        return expected(task, trial.inputs(task))["y"]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(work, [path, other] * 12))
    assert all(np.array_equal(a, found[0]) for a in found[::2])
    assert all(np.array_equal(a, found[1]) for a in found[1::2])


@pytest.mark.parametrize("name", ["index", "integers", "unique", "lengths"])
@pytest.mark.parametrize("seed", range(4))
def test_whole_numbers_hold_both_ends_of_their_range(name: str, seed: int) -> None:
    bounds = {"index": (400,), "integers": (-3, 400), "unique": (400,), "lengths": (400,)}[name]
    ends = {"index": {0, 399}, "integers": {-3, 400}, "unique": {0, 399}, "lengths": {1, 400}}[name]
    drawn = NamedRecipe(name=name, bounds=bounds).draw(
        rng_for(seed, name), (5,), strength=STANDARD_STRENGTH
    )
    assert ends <= set(drawn.tolist())
