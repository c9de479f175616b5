import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType
from nki_agent.task.loader import load_task
from nki_agent.task.reference import Precision
from nki_agent.task.task import Form, StaticArgument, TensorKind
from nki_agent.task.tolerance import ToleranceClass
from tests.task.conftest import Load, Write

LINEAR = """
class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.linear = nn.Linear(features, hidden)
        self.register_buffer("offset", torch.rand(hidden))

    def forward(self, x, scale):
        return self.linear(self.norm(x)) * scale + self.offset

def get_inputs():
    return [torch.randn(5, 12), 2.0]

def get_init_inputs():
    return [12, 7]
"""


def test_module_gives_inputs_then_weights_in_state_dict_order(load_torch: Load) -> None:
    task = load_torch(LINEAR)
    assert [a.name for a in task.arguments] == [
        "x",
        "scale",
        "offset",
        "norm_weight",
        "norm_bias",
        "linear_weight",
        "linear_bias",
    ]
    assert task.form is Form.MODULE
    assert task.arguments[1] == StaticArgument(name="scale", value=2.0)


def test_module_keeps_original_names_kinds_and_shapes(load_torch: Load) -> None:
    task = load_torch(LINEAR)
    weight = next(t for t in task.tensors if t.name == "linear_weight")
    assert (weight.original, weight.kind) == ("linear.weight", TensorKind.PARAMETER)
    assert (weight.shape, weight.dtype) == ((7, 12), DType.FLOAT32)
    offset = next(t for t in task.tensors if t.name == "offset")
    assert offset.kind is TensorKind.BUFFER


def test_module_task_has_one_shape_set_for_proof_and_speed(load_torch: Load) -> None:
    task = load_torch(LINEAR)
    assert task.dev is task.perf
    assert [shapes.name for shapes in task.shape_sets] == ["given"]
    assert [(o.name, o.shape, o.dtype) for o in task.outputs] == [("output", (5, 7), DType.FLOAT32)]


def test_torch_function_is_a_task(load_torch: Load) -> None:
    task = load_torch("""
        def gelu(x):
            return functional.gelu(x)

        def inputs():
            return [torch.randn(3, 4, dtype=torch.bfloat16)]
    """)
    assert (task.form, task.entry) == (Form.TORCH_FUNCTION, "gelu")
    assert task.tensors[0].dtype is DType.BFLOAT16
    assert task.tolerance in {ToleranceClass.B1, ToleranceClass.B2}


def test_numpy_function_is_a_task(load_numpy: Load) -> None:
    task = load_numpy("""
        def double(x):
            return x * 2

        def inputs(rng):
            return {"x": rng.standard_normal((3, 4), dtype=np.float32)}
    """)
    assert (task.form, task.entry, task.id) == (Form.NUMPY_FUNCTION, "double", "some-task")


def test_numpy_task_loads_without_torch(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text(
        "import numpy as np\n"
        "def double(x): return x * 2\n"
        "def inputs(rng): return [rng.standard_normal((3, 4), dtype=np.float32)]\n"
    )
    script = f"""
import sys
sys.modules["torch"] = None
from pathlib import Path
from nki_agent.task.loader import load_task
from nki_agent.task.trial import expected, make_trials
task = load_task(Path({str(path)!r}))
for trial in make_trials(task, 1):
    expected(task, trial.inputs(task))
print([name for name in sys.modules if name.startswith("torch.")])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_name_replaces_the_id(write: Write) -> None:
    path = write("def f(x): return x * 2\ndef inputs(rng): return [rng.random((2, 3), dtype='f4')]")
    assert load_task(path, name="l1-double").id == "l1-double"


def test_same_file_gives_the_same_hash_and_another_file_another(load_numpy: Load) -> None:
    source = (
        "def f(x): return x * {}\ndef inputs(rng): return [rng.random((2, 3), dtype='f4') - 0.5]"
    )
    first, again = load_numpy(source.format(2)), load_numpy(source.format(2))
    assert first.hash == again.hash
    assert first.hash != load_numpy(source.format(3)).hash


def test_two_loads_settle_the_same_judging(load_torch: Load) -> None:
    first, again = load_torch(LINEAR), load_torch(LINEAR)
    assert first.tolerance == again.tolerance
    assert first.dev.scales == again.dev.scales
    assert first.notes == again.notes


def test_rank_0_tensors_become_rank_1(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x, scale):
            return (x * scale).sum()

        def inputs():
            return [torch.randn(4, 5), torch.rand(())]
    """)
    assert task.tensors[1].shape == (1,)
    assert task.outputs[0].shape == (1,)


def test_none_bool_int_and_float_become_static(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x, mask, causal, axis, scale):
            return torch.softmax(x * scale, axis)

        def inputs():
            return [torch.randn(4, 5), None, True, -1, 0.5]
    """)
    statics = [a.value for a in task.arguments if isinstance(a, StaticArgument)]
    assert statics == [None, True, -1, 0.5]


def test_64_bit_integers_are_stored_in_32(load_torch: Load) -> None:
    task = load_torch("""
        def reference(table, index):
            return table[index], index + 1

        def inputs():
            return [torch.randn(9, 4), torch.randint(0, 9, (6,))]
    """)
    assert task.tensors[1].dtype is DType.INT32
    assert task.outputs[1].dtype is DType.INT32


def test_dtype_setting_turns_all_reals_into_it(load_torch: Load) -> None:
    task = load_torch('DTYPE = "bfloat16"\n' + LINEAR)
    assert {t.dtype for t in task.tensors} == {DType.BFLOAT16}
    assert task.outputs[0].dtype is DType.BFLOAT16
    assert task.tolerance is ToleranceClass.B2


def test_tolerance_setting_is_taken(load_torch: Load) -> None:
    assert load_torch('TOLERANCE = "F3"\n' + LINEAR).tolerance is ToleranceClass.F3


def test_several_outputs_are_numbered_and_named_ones_keep_their_names(load_torch: Load) -> None:
    source = """
        def reference(x):
            return {}

        def inputs():
            return [torch.randn(4, 5)]
    """
    pair = load_torch(source.format("x * 2, (x + 1, None)"))
    named = load_torch(source.format("{'y': x * 2, 'x': x + 1}"))
    assert [o.name for o in pair.outputs] == ["output_0", "output_1"]
    assert [o.name for o in named.outputs] == ["y", "x_2"]


def test_module_beside_the_file_is_found_and_hashed(tmp_path: Path) -> None:
    path = tmp_path / "task_file.py"
    path.write_text(
        "def f(x):\n    from beside_it import FACTOR\n    return x * FACTOR\n"
        "def inputs(rng): return [rng.random((2, 3), dtype='f4') - 0.5]\n"
    )
    hashes = []
    for factor in (2, 3):
        (tmp_path / "beside_it.py").write_text(f"FACTOR = {factor}.0\n# {'x' * factor}\n")
        task = load_task(path)
        x = np.ones((2, 3), dtype=np.float32)
        result = task.dev.reference.run({"x": x}, precision=Precision.DOUBLE)
        assert result.outputs["output"][0, 0] == factor
        hashes.append(task.hash)
    assert hashes[0] != hashes[1]
    assert "beside_it" not in sys.modules
    assert str(tmp_path) not in sys.path


def test_what_the_file_prints_is_not_on_stdout(
    load_numpy: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    load_numpy("""
        print("hello")

        def f(x):
            print("inside")
            return x * 2

        def inputs(rng):
            return [rng.random((2, 3), dtype=np.float32)]
    """)
    assert capsys.readouterr().out == ""


BAD_TORCH_FILES = {
    "no inputs": (
        """
        class Model(nn.Module):
            def forward(self, x): return x
        """,
        r"some_task.py has no `get_inputs\(\)`",
    ),
    "reference raises": (
        """
        def reference(x):
            return x.reshape(7, 7)
        def inputs(): return [torch.randn(4)]
        """,
        r"some_task.py:7: the reference raised RuntimeError: shape .*\n  hint: it runs",
    ),
    "inputs raise": (
        """
        def reference(x): return x
        def inputs():
            raise ValueError("no data")
        """,
        r"some_task.py:8: `inputs\(\)` raised ValueError: no data",
    ),
    "constructor raises": (
        """
        class Model(nn.Module):
            def __init__(self): raise ValueError("bad size")
        def get_inputs(): return []
        """,
        r"some_task.py:7: `Model\(...\)` raised ValueError: bad size\n  hint: `get_init_inputs",
    ),
    "no tensor": (
        """
        def reference(x): return "text"
        def inputs(): return [torch.randn(4)]
        """,
        r"the reference returns a str, not a tensor",
    ),
    "nothing": (
        """
        def reference(x): pass
        def inputs(): return [torch.randn(4)]
        """,
        r"the reference returns nothing",
    ),
    "empty": (
        """
        def reference(x): return x
        def inputs(): return [torch.randn(0, 4)]
        """,
        r"the input `x` is empty: its shape is \[0, 4\]",
    ),
    "float64": (
        """
        def reference(x): return x
        def inputs(): return [torch.randn(4, dtype=torch.float64)]
        """,
        r"the input `x` has the dtype float64.*\n.*use float32",
    ),
    "complex": (
        """
        def reference(x): return x
        def inputs(): return [torch.randn(4, dtype=torch.complex64)]
        """,
        r"the input `x` has the dtype complex64",
    ),
    "wide integers": (
        """
        def reference(x): return x
        def inputs(): return [torch.tensor([1, 2**40])]
        """,
        r"the input `x` holds 64-bit integers up to 1099511627776",
    ),
    "chance": (
        """
        def reference(x): return functional.dropout(x)
        def inputs(): return [torch.randn(64)]
        """,
        r"two runs of the reference on the same inputs give different values of `output`",
    ),
    "not finite": (
        """
        def reference(x): return torch.log(x)
        def inputs(): return [torch.randn(64)]
        """,
        r"`output` of the reference has \d+ values that are NaN or infinite",
    ),
    "constant": (
        """
        def reference(x): return x * 0 + 3
        def inputs(): return [torch.randn(64)]
        """,
        r"the outputs do not depend on the inputs",
    ),
    "wrong count": (
        """
        def reference(x, y): return x + y
        def inputs(): return [torch.randn(64)]
        """,
        r"the inputs function gives 1 values, but the reference takes `x`, `y`",
    ),
    "list argument": (
        """
        def reference(xs): return xs[0]
        def inputs(): return [[torch.randn(64)]]
        """,
        r"`xs` is a list",
    ),
    "no list": (
        """
        def reference(x): return x
        def inputs(): return torch.randn(64)
        """,
        r"`inputs\(\)` gives a Tensor, not a list, a tuple or a dict",
    ),
    "changing shape": (
        """
        def reference(x): return x * 2
        def inputs(): return [torch.randn(int(torch.randint(2, 10**6, ())))]
        """,
        r"`x` has the shape \[\d+\] in one call of the inputs function and \[\d+\] in another",
    ),
    "unknown update": (
        """
        UPDATES = ("z",)
        def reference(x): return x
        def inputs(): return [torch.randn(64)]
        """,
        r"UPDATES names `z`, which is no input",
    ),
    "missing update": (
        """
        UPDATES = ("x",)
        def reference(x): return x * 2
        def inputs(): return [torch.randn(64)]
        """,
        r"UPDATES names `x`, which the reference leaves unchanged",
    ),
    "lazy layer": (
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.LazyLinear(3)
            def forward(self, x): return self.linear(x)
        def get_inputs(): return [torch.randn(4, 5)]
        """,
        r"`Model` has lazy layers",
    ),
    "ties": (
        """
        def reference(x): return torch.floor(torch.sin(x * 1e6) * 1e6).to(torch.int32)
        def inputs(): return [torch.randn(640)]
        """,
        r"too sensitive to judge by",
    ),
    "bad update type": (
        """
        UPDATES = 3
        def reference(x): return x
        def inputs(): return [torch.randn(64)]
        """,
        r"UPDATES in some_task.py is 3",
    ),
}


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("case", BAD_TORCH_FILES)
def test_bad_torch_file_is_refused_with_its_reason(load_torch: Load, case: str) -> None:
    source, message = BAD_TORCH_FILES[case]
    with pytest.raises(TaskError) as caught:
        load_torch(source)
    assert re.search(message, str(caught.value), re.S), str(caught.value)


BAD_FILES = {
    "syntax": ("def f(x:\n", r"some_task.py:1: not Python"),
    "nul": ("x = 1\0", r"some_task.py.*: not Python"),
    "nothing": ("x = 1\n", r"some_task.py has no model and no function"),
    "only inputs": ("def inputs(): return []\n", r"has no model and no function"),
    "several": (
        "def f(x): return x\ndef g(x): return x\ndef inputs(): return [1.0]\n",
        r"several candidates for the reference: `f`, `g`",
    ),
    "no module": ("class Model: pass\n", r"`Model` in some_task.py is a class, not a torch"),
    "raises": ("x = 1\nraise RuntimeError('too old')\n", r"some_task.py:2: .* too old"),
    "exits": ("import sys\nsys.exit(3)\n", r"some_task.py:2: loading the file raised SystemExit"),
    "missing package": ("import no_such_package_\n", r"ModuleNotFoundError.*\n.*no_such_package_"),
    "bad tolerance": (
        "TOLERANCE = 'F9'\ndef f(x): return x\ndef inputs(): return [1.0]\n",
        r"TOLERANCE in some_task.py is 'F9'.*\n.*EX, IX, F1",
    ),
    "bad dtype": (
        "DTYPE = 'int32'\ndef f(x): return x\ndef inputs(): return [1.0]\n",
        r"DTYPE in some_task.py is 'int32'.*\n.*bfloat16",
    ),
    "bad updates": (
        "UPDATES = 3\ndef f(x): return x\ndef inputs(): return [1.0]\n",
        r"UPDATES in some_task.py is 3",
    ),
    "needs more": (
        "def f(x): return x\ndef inputs(size): return [1.0]\n",
        r"`inputs\(\)` needs `size`",
    ),
    "text input": (
        "import numpy as np\ndef f(x): return x\ndef inputs(): return [np.array(['a'])]\n",
        r"the input `x` has the dtype str\d*, which the chip lacks",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file_is_refused_with_its_reason(load: Load, case: str) -> None:
    source, message = BAD_FILES[case]
    with pytest.raises(TaskError) as caught:
        load(source)
    assert re.search(message, str(caught.value), re.S), str(caught.value)


def test_missing_file_folder_and_bytes_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.py"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, message in (
        (tmp_path / "none.py", "no file none.py"),
        (tmp_path, "is a folder"),
        (binary, "not text in UTF-8"),
    ):
        with pytest.raises(TaskError, match=message):
            load_task(path)


def test_float64_of_numpy_is_taken_as_float32_with_a_note(load_numpy: Load) -> None:
    task = load_numpy("""
        def f(x):
            return x * 2

        def inputs():
            return [np.random.randn(3, 4)]
    """)
    assert task.tensors[0].dtype is DType.FLOAT32
    assert any("float64" in note for note in task.notes)


def test_overwritten_input_is_noted(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x):
            return functional.relu(x, inplace=True)

        def inputs():
            return [torch.randn(3, 4)]
    """)
    assert any("overwrites `x`" in note for note in task.notes)


def test_hidden_tensor_is_noted(load_torch: Load) -> None:
    task = load_torch("""
        W = torch.randn(8, 8)

        def reference(x):
            return x @ W

        def inputs():
            return [torch.randn(5, 8)]
    """)
    assert any("shape [8, 8] that is neither an input nor a weight" in n for n in task.notes)


def test_dead_input_is_noted(load_torch: Load) -> None:
    task = load_torch("""
        def reference(x, y):
            return x * 2 + y * 1e-9

        def inputs():
            return [torch.randn(5, 8), torch.randn(5, 8)]
    """)
    assert any("other values of `y` hardly change an output" in note for note in task.notes)


def test_unread_weight_is_noted_and_kept(load_torch: Load) -> None:
    task = load_torch("""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.used = nn.Parameter(torch.randn(4))
                self.unused = nn.Parameter(torch.randn(4))

            def forward(self, x):
                return x * self.used

        def get_inputs():
            return [torch.randn(3, 4)]
    """)
    assert [t.name for t in task.tensors] == ["x", "used", "unused"]
    assert "the weight `unused` is never read" in task.notes


def test_only_module_class_of_a_file_is_the_model(load_torch: Load) -> None:
    task = load_torch("""
        class Doubler(nn.Module):
            def forward(self, x):
                return x * 2

        def get_inputs():
            return [torch.randn(3, 4)]
    """)
    assert task.entry == "Doubler"
