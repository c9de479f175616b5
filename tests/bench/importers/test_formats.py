"""Each format as its authors write it, and what becomes of a task in it."""

import textwrap

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.bench.importers.accelopt import read_accelopt
from nki_agent.bench.importers.backendbench import UnreadableError, read_backendbench, read_call
from nki_agent.bench.importers.draft import Draft
from nki_agent.bench.importers.fitting import Fitted, fit
from nki_agent.bench.importers.flashinfer import read_flashinfer
from nki_agent.bench.importers.foreign import Foreign
from nki_agent.bench.importers.formats import Format, find_format
from nki_agent.bench.importers.kernelbench import read_kernelbench
from nki_agent.bench.importers.nki_agent_modules import read_modules
from tests.bench.importers.conftest import SCALED_SUM, listing_of

LIMIT = 50_000
FORWARD = """\
    import numpy as np

    ROWS = 256

    def get_inputs():
        return [np.random.normal(size=(ROWS, 16)).astype(np.float32)]

    def forward(x):
        return x * x - 0.5

    def to_layout(inputs):
        return inputs
    """
MODULE = """\
    from . import Entry

    def _make(width):
        model = (
            "import torch\\n"
            "class Model(torch.nn.Module):\\n"
            "    def __init__(self):\\n"
            "        super().__init__()\\n"
            f"        self.linear = torch.nn.Linear({width}, 24)\\n"
            "    def forward(self, x):\\n"
            "        return self.linear(x)\\n"
        )
        inputs = f"import torch\\ndef get_inputs():\\n    return [torch.randn(64, {width})]\\n"
        return Entry(
            task_id=f"L2_fused_{width}", name="linear", level=2, category="fused",
            model_class_code=model, get_inputs_code=inputs,
        )

    def get_tasks():
        return [_make(width) for width in (32, 48)]
    """
PACKAGE = """\
    from dataclasses import dataclass

    @dataclass
    class Entry:
        task_id: str
        name: str
        level: int
        category: str
        model_class_code: str
        get_inputs_code: str
    """
DEFINITION = """\
    {"name": "scaled_product_k64", "op_type": "gemm",
     "axes": {"M": {"type": "var"}, "K": {"type": "const", "value": 64}},
     "inputs": {"a": {"shape": ["M", "K"], "dtype": "float32"}%s},
     "outputs": {"c": {"shape": ["M", "M"], "dtype": "float32"}},
     "reference": "import torch\\n\\ndef run(a%s):\\n    return torch.matmul(a, a.T) * 0.5%s\\n"}
    """
WORKLOADS = """\
    {"definition": "scaled_product_k64", "workload": {"axes": {"M": 16}, "inputs": {}}}
    {"definition": "scaled_product_k64", "workload": {"axes": {"M": 512}, "inputs": {}}}
    {"definition": "another", "workload": {"uuid": "3", "axes": {"M": 9999}, "inputs": {}}}
    """


def fit_one(drafts: list[Draft], foreign: Foreign) -> tuple[Draft, Fitted]:
    (draft,) = drafts
    return draft, fit(draft, foreign, limit_elems=LIMIT)


def test_kernelbench_takes_level_and_number_into_the_id() -> None:
    listing = listing_of(
        {"KernelBench/level2/7_Scaled_Sum.py": SCALED_SUM, "src/prompts/example.py": SCALED_SUM}
    )
    (draft,) = read_kernelbench(listing)
    assert (draft.id, draft.level) == ("l2-7-scaled-sum", 2)


def test_kernelbench_file_that_is_not_python_is_a_problem() -> None:
    (draft,) = read_kernelbench(listing_of({"level1/1_Broken.py": "class Model(:\n"}))
    assert "not Python at line 1" in draft.problem


def test_accelopt_takes_forward_as_the_reference(foreign: Foreign) -> None:
    files = {
        "summary.json": '{"square": {"cases": [{"task": "./reference/square_M256_numpy_1.py"}]}}',
        "reference/square_M256_numpy_1.py": FORWARD,
        "reference/other_numpy_1.py": FORWARD,
    }
    draft, fitted = fit_one(read_accelopt(listing_of(files)), foreign)
    assert draft.id == "square-m256"
    assert fitted.is_fit, fitted.reasons
    assert textwrap.dedent(FORWARD) in fitted.text


def test_accelopt_summary_that_names_no_file_says_so() -> None:
    summary = '{"a": {"task": "./reference/gone.py"}}'
    (draft,) = read_accelopt(listing_of({"x/summary.json": summary}))
    assert draft.problem == "x/summary.json names it, but there is no such file"


def test_nki_agent_modules_are_run_and_their_weights_become_arguments(foreign: Foreign) -> None:
    listing = listing_of({"bench/__init__.py": PACKAGE, "bench/level2.py": MODULE})
    drafts = read_modules(listing, foreign)
    assert [draft.id for draft in drafts] == ["l2-fused-32-linear", "l2-fused-48-linear"]
    fitted = fit(drafts[0], foreign, limit_elems=LIMIT)
    assert fitted.is_fit, fitted.reasons
    assert fitted.changes == ("2 weights are arguments of the kernel",)


def test_nki_agent_modules_that_raise_are_one_problem(foreign: Foreign) -> None:
    files = {"bench/tasks.py": "model_class_code = 1 / 0\n"}
    (draft,) = read_modules(listing_of(files), foreign)
    assert "ZeroDivisionError" in draft.problem


def test_nki_agent_json_is_read_without_running_anything(foreign: Foreign) -> None:
    text = """\
        [{"task_id": "L1_a", "level": 1, "model_class_code": "x = 1", "get_inputs_code": "y = 2"},
         {"model_class_code": 3}]
        """
    first, second = read_modules(listing_of({"tasks.json": text}), foreign)
    assert (first.id, first.level, first.problem) == ("l1-a", 1, "")
    assert "not of the format" in second.problem


def test_flashinfer_declares_the_largest_workload_as_perf(foreign: Foreign) -> None:
    files = {"definitions/a.json": DEFINITION % ("", "", ""), "workloads/a.jsonl": WORKLOADS}
    draft, fitted = fit_one(read_flashinfer(listing_of(files)), foreign)
    assert draft.category == "gemm"
    assert fitted.is_fit, fitted.reasons
    assert '"perf": {"M": 512, "K": 64}' in fitted.text
    assert '"dev": {"M": 128, "K": 64}' in fitted.text


def test_flashinfer_scalars_are_static_arguments(foreign: Foreign) -> None:
    scalar = ', "bias": {"shape": null, "dtype": "float32"}'
    files = {"a.json": DEFINITION % (scalar, ", bias", " + bias")}
    draft, fitted = fit_one(read_flashinfer(listing_of(files)), foreign)
    assert fitted.is_fit, fitted.reasons
    assert '"bias": 1.0' in fitted.text
    assert draft.notes == ("no workload: M taken as 256",)


def test_flashinfer_indices_are_not_invented() -> None:
    pointers = ', "indptr": {"shape": ["M"], "dtype": "int32"}'
    (draft,) = read_flashinfer(listing_of({"a.json": DEFINITION % (pointers, "", "")}))
    assert "`indptr` holds indices" in draft.problem


def test_flashinfer_file_of_another_form_is_a_problem() -> None:
    text = '{"axes": 1, "inputs": 2, "outputs": 3, "reference": 4}'
    (draft,) = read_flashinfer(listing_of({"a.json": text}))
    assert draft.problem.startswith("no definition")


def test_backendbench_call_becomes_a_task(foreign: Foreign) -> None:
    text = """\
        Operator: aten.add.Tensor
        cnt: 12, ((T([16, 32], f32), T([32], f32)), {'alpha': 2})
        cnt: 3, ((T([16, 32], f32), T([32], f32)), {'alpha': 2})
        """
    draft, fitted = fit_one(read_backendbench(listing_of({"ops.txt": text})), foreign)
    assert draft.id == "add-tensor"
    assert "torch.ops.aten.add.Tensor(x0, x1, alpha=2)" in fitted.text
    assert fitted.is_fit, fitted.reasons


def test_backendbench_call_in_place_updates_its_input(foreign: Foreign) -> None:
    text = "Operator: aten.relu_.default\ncnt: 1, ((T([16, 32], f32),), {})\n"
    _, fitted = fit_one(read_backendbench(listing_of({"ops.txt": text})), foreign)
    assert 'UPDATES = ("x0",)' in fitted.text
    assert fitted.is_fit, fitted.reasons


def test_backendbench_arguments_are_read_as_they_are() -> None:
    call = read_call("(([T([2, 3], f64, [1, 2])], -1, None), {'dtype': f16, 'device': 'cuda'})")
    assert call.arguments == ["[x0]", "-1", "None", "dtype=torch.float16"]
    assert call.tensors == [((2, 3), "float32")]
    assert len(call.notes) == 3


@pytest.mark.parametrize(
    "text",
    [
        "((__import__('os').getcwd(),), {})",
        "((T([f()], f32),), {})",
        "((T([2], f32),), {**x})",
        "((T([2], f32)",
        "(1)",
        "((T([2], nope),), {})",
    ],
)
def test_backendbench_arguments_of_another_form_are_never_run(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_call(text)


def test_format_is_guessed_from_what_the_files_hold() -> None:
    suites = {
        Format.KERNELBENCH: {"level1/1_a.py": SCALED_SUM},
        Format.ACCELOPT: {"reference/a.py": FORWARD},
        Format.NKI_AGENT: {"bench/level2.py": MODULE},
        Format.FLASHINFER: {"a.json": DEFINITION % ("", "", "")},
        Format.BACKENDBENCH: {"ops.txt": "Operator: aten.relu.default\n"},
    }
    for form, files in suites.items():
        assert find_format("auto", listing_of(files)) is form


def test_format_of_foreign_files_is_asked_for() -> None:
    with pytest.raises(UsageError, match="no format that is known"):
        find_format("auto", listing_of({"notes.txt": "hello"}))


def test_format_of_another_name_is_refused_with_the_names() -> None:
    with pytest.raises(UsageError, match="kernelbench, accelopt"):
        find_format("kernelbank", listing_of({}))
