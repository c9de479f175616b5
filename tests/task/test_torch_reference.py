from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nki_agent.task.reference import Precision
from nki_agent.task.task import Task
from nki_agent.task.tensors import to_array, to_tensor
from nki_agent.task.trial import make_trials
from tests.task.conftest import Load

Arrays = dict[str, NDArray[Any]]


def run(task: Task, inputs: Arrays, precision: Precision = Precision.DOUBLE) -> NDArray[Any]:
    found = task.dev.reference.run(inputs, precision=precision)
    return next(iter(found.outputs.values()))


def first_inputs(task: Task) -> Arrays:
    return make_trials(task, 1)[0].inputs(task)


@pytest.fixture(autouse=True)
def settings_left_alone() -> Iterator[None]:
    before = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    yield
    assert (torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()) == before


CASTS = {
    "method": "x.float() * 1.1",
    "to": "x.to(torch.float32) * 1.1",
    "keyword": "torch.softmax(x, -1, dtype=torch.float32)",
    "factory": "x * torch.full((8,), 1.1, dtype=torch.float32)",
    "default": "x * torch.full((8,), 1.1)",
    "literal": "x * torch.tensor([1.1])",
    "constant": "x @ W",
    "back": "(x.float() * 1.1).to(x.dtype)",
}


@pytest.mark.parametrize("case", CASTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_narrow_dtypes_in_the_code_are_widened(load_torch: Load, case: str, dtype: str) -> None:
    source = CASTS[case]
    task = load_torch(f"""
        W = torch.full((8, 8), 0.5, dtype=torch.{dtype})

        def reference(x):
            return {source}

        def inputs():
            return [torch.randn(5, 8, dtype=torch.{dtype})]
    """)
    inputs = first_inputs(task)
    wide = run(task, inputs)
    assert wide.dtype == np.float64
    x = torch.from_numpy(inputs["x"].astype(np.float64))
    W = torch.full((8, 8), 0.5, dtype=torch.float64)  # noqa: N806 - as in the file
    code = source.replace("float32", "float64").replace(".float()", ".double()")
    code = code.replace("1.1)", "1.1, dtype=torch.float64)" if case == "default" else "1.1)")
    code = code.replace("[1.1]", "[1.1], dtype=torch.float64")
    wanted = eval(code, {"torch": torch, "x": x, "W": W})
    assert np.allclose(wide, wanted.numpy(), rtol=1e-14, atol=0)


def test_code_sees_its_own_dtype_in_a_wide_run(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x):
            assert x.dtype == torch.bfloat16
            return x + torch.finfo(x.dtype).eps

        def inputs():
            return [torch.randn(5, 8, dtype=torch.bfloat16)]
    """)
    inputs = first_inputs(task)
    eps = torch.finfo(torch.bfloat16).eps
    assert np.array_equal(run(task, inputs), inputs["x"].astype(np.float64) + eps)


def test_default_epsilon_of_rms_norm_is_that_of_the_own_dtype(load_torch: Load) -> None:
    task = load_torch("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.RMSNorm(8)

            def forward(self, x):
                return self.norm(x) + functional.rms_norm(x, (8,)) + torch.rms_norm(x, (8,), None)

        def get_inputs():
            return [torch.randn(5, 8)]
    """)
    inputs = first_inputs(task)
    inputs["x"][:] = 1e-4
    inputs["norm_weight"][:] = 1
    assert np.allclose(run(task, inputs, Precision.OWN), run(task, inputs), rtol=1e-5)


def test_casts_to_8_bit_floats_stay_in_a_wide_run(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x):
            return x.to(torch.float8_e4m3fn).to(x.dtype)

        def inputs():
            return [torch.randn(5, 8)]
    """)
    inputs = first_inputs(task)
    assert np.array_equal(run(task, inputs, Precision.OWN), run(task, inputs))


def test_single_precision_keeps_float32_inside_a_narrow_task(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x):
            return (x + 100) - 100

        def inputs():
            return [torch.randn(5, 8, dtype=torch.bfloat16)]
    """)
    inputs = first_inputs(task)
    own, single, double = (run(task, inputs, p).astype(np.float64) for p in Precision)
    assert np.abs(own - double).max() > 0.05
    assert np.abs(single - double).max() < 1e-4


def test_lstm_runs_in_both_precisions_on_the_given_weights(load_torch: Load) -> None:
    task = load_torch("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm = nn.LSTM(6, 5)

            def forward(self, x):
                return self.lstm(x)[0]

        def get_inputs():
            return [torch.randn(7, 3, 6)]
    """)
    inputs = first_inputs(task)
    wide = run(task, inputs)
    assert np.allclose(run(task, inputs, Precision.OWN), wide, atol=1e-5)
    inputs["lstm_bias_ih_l0"] += 1
    assert not np.allclose(run(task, inputs), wide, atol=1e-2)


def test_tied_weights_are_one_argument(load_torch: Load) -> None:
    task = load_torch("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(20, 8)
                self.head = nn.Linear(8, 20, bias=False)
                self.head.weight = self.table.weight

            def forward(self, index):
                return self.head(self.table(index))

        def get_inputs():
            return [torch.randint(0, 20, (4,))]
    """)
    assert [t.name for t in task.tensors] == ["index", "table_weight"]


def test_unsaved_buffers_and_attributes_are_arguments_if_they_are_read(load_torch: Load) -> None:
    task = load_torch("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("kept", torch.rand(8), persistent=False)
                self.scale = torch.tensor(2.0)
                self.unread = torch.rand(8)
                self.norm = nn.BatchNorm1d(8, affine=False)

            def forward(self, x):
                return self.norm(x) * self.scale + self.kept

        def get_inputs():
            return [torch.randn(4, 8)]
    """)
    names = [t.name for t in task.tensors]
    assert names == ["x", "norm_running_mean", "norm_running_var", "kept", "scale"]
    inputs = first_inputs(task)
    before = run(task, inputs)
    inputs["scale"] *= 2
    assert not np.array_equal(run(task, inputs), before)


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int8", "bool"]
)
def test_arrays_and_tensors_have_the_same_bytes(dtype: str) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype)).T
    array = to_array(tensor)
    assert array.shape == (3, 2)
    assert torch.equal(to_tensor(array).to(torch.float32), tensor.to(torch.float32))


def test_operations_that_refuse_to_be_followed_still_make_a_task(load_torch: Load) -> None:
    task = load_torch("""
        from torch.utils._python_dispatch import is_in_torch_dispatch_mode

        def reference(x):
            if is_in_torch_dispatch_mode():
                raise RuntimeError("cannot be followed")
            return x * 2

        def inputs():
            return [torch.randn(4, 8)]
    """)
    assert task.work.min_hbm_bytes == 2 * 4 * 8 * 4
