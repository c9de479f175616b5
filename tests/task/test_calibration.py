from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nki_agent.task.comparison import Comparison
from nki_agent.task.family import Family, FamilyScale
from nki_agent.task.task import Task
from nki_agent.task.tolerance import ToleranceClass
from nki_agent.task.trial import compare_outputs, expected, make_trials
from tests.task.conftest import Load

SOFTMAX = """
def reference(x):
    return torch.softmax(x, -1)

def inputs():
    return [torch.randn(40, 96)]
"""
RMSNORM = """
def reference(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

def inputs():
    return [torch.randn(40, 96)]
"""
ATTENTION = """
DTYPE = "{dtype}"

def reference(q, k, v):
    return torch.softmax(q @ k.T * q.shape[-1] ** -0.5, -1) @ v

def inputs():
    return [torch.randn(64, 32), torch.randn(48, 32), torch.randn(48, 32)]
"""
Arrays = dict[str, NDArray[Any]]


def one(source: str, *, dtype: str = "torch.float32") -> str:
    return f"""
def reference(x):
    return {source}

def inputs():
    return [torch.randn(40, 96).to({dtype})]
"""


def judge(task: Task, family: Family, output: Any, *, seed: int = 3) -> Comparison:
    """Judge what a function of the float32 inputs gives in one trial of the family."""
    trial = next(t for t in make_trials(task, seed) if t.family is family)
    inputs = trial.inputs(task)
    wanted = expected(task, inputs)
    floats = {name: array.astype(np.float32) for name, array in inputs.items()}
    with np.errstate(all="ignore"):
        got = output(**floats).astype(task.outputs[0].dtype.numpy_dtype)
    return compare_outputs(task, trial, wanted, {"output": got})["output"]


def softmax_without_maximum(x: NDArray[np.float32]) -> NDArray[np.float32]:
    exponents = np.exp(x)
    return np.asarray(exponents / exponents.sum(-1, keepdims=True))


def softmax(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return softmax_without_maximum(x - x.max(-1, keepdims=True))


def test_softmax_without_row_maximum_is_wrong_only_on_big_values(load_torch: Load) -> None:
    task = load_torch(SOFTMAX)
    assert task.dev.scales[Family.BIG] == FamilyScale(factor=16, offset=60, spike=200, sunk=-250)
    assert judge(task, Family.STANDARD, softmax_without_maximum).right
    assert not judge(task, Family.BIG, softmax_without_maximum).right
    assert judge(task, Family.BIG, softmax).right


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_without_row_maximum_is_wrong_on_big_values(load_torch: Load, dtype: str) -> None:
    task = load_torch(ATTENTION.format(dtype=dtype))
    scale = 32**-0.5
    with_maximum = judge(task, Family.BIG, lambda q, k, v: softmax(q @ k.T * scale) @ v)
    without = judge(task, Family.BIG, lambda q, k, v: softmax_without_maximum(q @ k.T * scale) @ v)
    assert with_maximum.right
    assert not without.right


def test_missing_epsilon_is_wrong_only_on_tiny_values(load_torch: Load) -> None:
    task = load_torch(RMSNORM)

    def without_epsilon(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(x / np.sqrt(np.square(x).mean(-1, keepdims=True)))

    assert judge(task, Family.STANDARD, without_epsilon).right
    assert not judge(task, Family.TINY, without_epsilon).right


@pytest.mark.parametrize(
    ("source", "offset"),
    [
        ("functional.layer_norm(x, (96,))", 60.0),
        ("torch.logsumexp(x, -1)", 60.0),
        ("x.mean(-1)", 60.0),
        ("torch.tanh(x)", 0.0),
        ("x @ x.T", 0.0),
    ],
)
def test_offset_goes_to_inputs_whose_shift_is_ignored_or_passed(
    load_torch: Load, source: str, offset: float
) -> None:
    assert load_torch(one(source)).dev.scales[Family.BIG].offset == offset


@pytest.mark.parametrize(
    ("source", "dtype", "name"),
    [
        ("x.T", "torch.float32", ToleranceClass.EX),
        ("torch.relu(x)", "torch.bfloat16", ToleranceClass.EX),
        ("x.topk(4)[0]", "torch.float32", ToleranceClass.EX),
        ("x * 2.5", "torch.float32", ToleranceClass.F2),
        ("x @ x.T", "torch.bfloat16", ToleranceClass.B2),
        ("x * 2.5", "torch.float16", ToleranceClass.B1),
        ("(x * 2.5, x.float() * 2.5)", "torch.bfloat16", ToleranceClass.BM),
        ("(x * 9).round().to(torch.int8)", "torch.float32", ToleranceClass.Q1),
        ("(x * 9).to(torch.float8_e4m3fn)", "torch.float32", ToleranceClass.Q2),
        ("(x * 9).to(torch.float8_e4m3fn).float() / 9", "torch.float32", ToleranceClass.Q2),
        ("x.reshape(-1).repeat(16).abs().sum()", "torch.float32", ToleranceClass.F3),
    ],
)
def test_class_follows_dtype_and_operations(
    load_torch: Load, source: str, dtype: str, name: ToleranceClass
) -> None:
    assert load_torch(one(source, dtype=dtype)).tolerance is name


def test_class_is_widened_where_the_reference_needs_it(load_torch: Load) -> None:
    task = load_torch(one("(x + 3000) - 3000"))
    assert task.tolerance is ToleranceClass.F4
    assert any("tolerance F4" in note for note in task.notes)


def test_tight_class_of_the_file_is_kept_with_a_note(load_torch: Load) -> None:
    task = load_torch('TOLERANCE = "F1"\n' + one("(x + 3000) - 3000"))
    assert task.tolerance is ToleranceClass.F1
    assert any("tolerance F1 is tight" in note for note in task.notes)


def test_narrow_reference_that_no_class_holds_is_judged_by_float32_inside(
    load_torch: Load,
) -> None:
    task = load_torch(one("(x + 64) - 64", dtype="torch.bfloat16"))
    assert any("with float32 inside" in note for note in task.notes)


def test_big_scale_falls_to_what_the_reference_survives(load_torch: Load) -> None:
    task = load_torch(one("torch.exp(x * 3)"))
    assert task.dev.scales[Family.BIG].factor == 4
    assert "big trials scale inputs by 4: the reference does not survive 8" in task.notes


def test_bounded_domain_only_shrinks(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x):
            return torch.acos(x)

        def inputs():
            return [torch.rand(40, 30) * 2 - 1]
    """)
    assert any("only shrink" in note for note in task.notes)
    for trial in make_trials(task, 1):
        assert all(np.isfinite(a).all() for a in expected(task, trial.inputs(task)).values())


def test_domain_without_room_keeps_the_functions_values(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x):
            return torch.log(x * x - 1) * torch.log(400 - x * x)

        def inputs():
            return [(torch.rand(40, 30) + 1.01) * torch.sign(torch.randn(40, 30))]
    """)
    assert any("as their function gives them" in note for note in task.notes)


def test_structure_that_a_redraw_breaks_stays_as_given(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x, lengths):
            return torch.cat([part.sum(0, keepdim=True) for part in x.split(lengths.tolist())])

        def inputs():
            return [torch.randn(10, 4), torch.tensor([2, 3, 2, 3])]
    """)
    assert any("other values of `lengths` break the reference" in note for note in task.notes)
    assert make_trials(task, 1)[0].inputs(task)["lengths"].tolist() == [2, 3, 2, 3]


def test_large_task_is_given_mild_scales(load_numpy: Load) -> None:
    task = load_numpy("""
        def reference(x):
            return x[:1] * 2

        def inputs(rng):
            return [np.broadcast_to(rng.random(1024, dtype=np.float32), (8500, 1024))]
    """)
    assert any("the task is large" in note for note in task.notes)
    assert task.dev.scales[Family.BIG].factor == 4


def test_output_that_ignores_inputs_is_noted(load_torch: Load) -> None:
    task = load_torch(one("x * 2, x * 0 + 1"))
    assert any("`output_1` does not depend on the inputs" in note for note in task.notes)
    assert [output.is_constant for output in task.outputs] == [False, True]


@pytest.mark.parametrize("source", ["F.elu(x)", "torch.expm1(x)", "torch.selu(x)"])
def test_difference_that_the_chip_must_take_has_room_on_tiny_values(
    load_torch: Load, source: str
) -> None:
    source = source.replace("F.", "torch.nn.functional.")
    assert load_torch(one(source)).dev.scales[Family.TINY].slack == 5
    assert load_torch(one("torch.exp(x)")).dev.scales[Family.TINY].slack == 1


def test_saturated_output_is_not_constant(load_torch: Load) -> None:
    task = load_torch(one("x * 2, torch.tanh(x * 1e-9) + 1"))
    assert [output.is_constant for output in task.outputs] == [False, False]


def test_unchanging_input_is_noted(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x, lengths):
            return x * lengths.to(x.dtype)[:, None]

        def inputs():
            return [torch.randn(6, 4), torch.full((6,), 3)]
    """)
    assert any("`lengths` has the same values in every trial" in note for note in task.notes)


def softmax_from_zero(x: NDArray[Any]) -> NDArray[Any]:
    """Its row maximum starts at zero, not at the least value there is."""
    exps = np.exp(x - np.maximum(x.max(-1, keepdims=True), 0.0))
    return np.asarray(exps / exps.sum(-1, keepdims=True))


FROM_ZERO = {
    "softmax of rows": (one("torch.softmax(x, -1)"), softmax_from_zero),
    "softmax of columns": (one("torch.softmax(x, 0)"), lambda x: softmax_from_zero(x.T).T),
    "softmax in bfloat16": (
        one("torch.softmax(x, -1)", dtype="torch.bfloat16"),
        softmax_from_zero,
    ),
    "maximum": (one("x.amax(-1)"), lambda x: np.maximum(x.max(-1), 0.0)),
    "maximum of all": (one("x.amax()"), lambda x: np.maximum(x.max(keepdims=True)[0], 0.0)),
    "running maximum": (
        one("x.cummax(-1).values"),
        lambda x: np.maximum(np.maximum.accumulate(x, -1), 0.0),
    ),
    "the 60 largest": (
        one("x.topk(60, -1).values"),
        lambda x: np.maximum(-np.sort(-x, -1)[:, :60], 0.0),
    ),
    "pooling": (
        one("torch.nn.functional.max_pool1d(x[None], 3, 2, padding=1)[0]"),
        lambda x: (
            np.pad(x, ((0, 0), (1, 1)), constant_values=-2.0)[:, : 48 * 2]
            .reshape(40, 48, 2)
            .max(-1)
        ),
    ),
    "attention": (
        ATTENTION.format(dtype="float32"),
        lambda q, k, v: softmax_from_zero(q @ k.T * 32**-0.5) @ v,
    ),
}


@pytest.mark.parametrize("name", FROM_ZERO)
def test_what_takes_zero_for_the_least_value_is_wrong_in_the_big_trial(
    name: str, load_torch: Load
) -> None:
    text, mutant = FROM_ZERO[name]
    for seed in range(4):
        assert not judge(load_torch(text), Family.BIG, mutant, seed=seed).right


ELEMENTWISE: dict[str, tuple[str, Any]] = {
    "softplus": ("functional.softplus(x)", lambda x: np.log1p(np.exp(x))),
    "sigmoid": ("torch.sigmoid(x)", lambda x: np.exp(x) / (1 + np.exp(x))),
    "tanh": ("torch.tanh(x)", lambda x: (np.exp(2 * x) - 1) / (np.exp(2 * x) + 1)),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_function_that_overflows_on_the_way_is_wrong_on_big_values(
    load_torch: Load, name: str
) -> None:
    call, written_out = ELEMENTWISE[name]
    task = load_torch(one(call))
    assert all(not judge(task, Family.BIG, written_out, seed=seed).right for seed in range(4))


@pytest.mark.parametrize("call", ["x.amin(-1)", "x.amax(-1)", "torch.sort(x, -1)[0]"])
def test_what_only_selects_meets_rows_far_from_zero_on_both_sides(
    load_torch: Load, call: str
) -> None:
    task = load_torch(one(call))
    (trial,) = [t for t in make_trials(task, 2) if t.family is Family.BIG]
    rows = trial.inputs(task)["x"]
    far = 1e4
    assert (rows.max(axis=-1) < -far).any()
    assert (rows.min(axis=-1) > far).any()
