"""Unfit tasks are found, fit ones are let be."""

from dataclasses import replace
from pathlib import Path

import pytest

from nki_agent.task.family import Family, FamilyScale
from nki_agent.task.lint import FreshProcess, lint_task
from nki_agent.task.loader import load_task
from nki_agent.task.subject import Check, LintFinding
from tests.source import ROOT
from tests.task.conftest import Load

UNFIT = sorted((ROOT / "tests/task/unfit").glob("*.py"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FINDING = "Finding: "
FIT = {
    "softmax": ("torch.softmax(x, -1)", "torch.randn(40, 96)"),
    "rms_norm": ("x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", "torch.randn(40, 96)"),
    "relu": ("torch.relu(x)", "torch.randn(3000)"),
    "cast": ("x.to(torch.bfloat16)", "torch.randn(40, 96)"),
    "transpose": ("x.T.contiguous()", "torch.randn(40, 96)"),
    "largest": ("x.amax(-1)", "torch.randn(130, 96)"),
    "place": ("x.argmax(-1)", "torch.randn(130, 96)"),
    "top": ("torch.topk(x, 8)", "torch.randn(130, 96)"),
    "sum of all": ("x.sum()", "torch.randn(5000)"),
    "layer norm in bfloat16": (
        "functional.layer_norm(x, (96,))",
        "torch.randn(40, 96).bfloat16()",
    ),
    "sum": ("x.sum(0)", "torch.randn(130, 96)"),
    "running": ("x.cumsum(-1)", "torch.randn(40, 96)"),
    "comparison": ("x > 0", "torch.randn(40, 96)"),
    "half": ("torch.exp(x)", "torch.randn(40, 96).half()"),
    "half with large values": ("torch.exp(x)", "torch.randn(130, 300).half()"),
    "pool": ("functional.avg_pool2d(x, 2)", "torch.randn(2, 8, 14, 14)"),
    "causal": (
        "torch.softmax(x.masked_fill(torch.ones(64, 64).triu(1) > 0, -torch.inf), -1)",
        "torch.randn(4, 64, 64)",
    ),
    "rows of a table": ("x[torch.arange(39, -1, -1)] * 2", "torch.randn(40, 96)"),
}


def expected_check(path: Path) -> str:
    lines = path.read_text("utf-8").splitlines()
    return next(line for line in lines if line.startswith(FINDING)).removeprefix(FINDING)


@pytest.fixture(scope="module")
def fresh() -> dict[str, str]:
    return FreshProcess.start([*UNFIT, *EXAMPLES]).digests()


def test_folder_of_our_name_does_not_stand_in_for_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "nki_agent" / "task"
    other.mkdir(parents=True)
    for folder in (other.parent, other):
        (folder / "__init__.py").touch()
    (other / "lint.py").write_text('print(\'{"stranger": "was run"}\')\n')
    path = EXAMPLES[0].absolute()
    monkeypatch.chdir(tmp_path)
    digests = FreshProcess.start([path]).digests()
    assert list(digests) == [str(path)]


def checks(findings: tuple[LintFinding, ...]) -> set[str]:
    return {finding.check.value for finding in findings}


@pytest.mark.parametrize("path", UNFIT, ids=lambda path: path.stem)
def test_unfit_task_gives_its_finding(path: Path, fresh: dict[str, str]) -> None:
    findings = lint_task(load_task(path), fresh_digest=fresh[str(path)])
    assert expected_check(path) in checks(findings), findings
    assert all(f.what and f.found and f.allowed and f.hint for f in findings)


def test_unfit_tasks_are_of_many_kinds() -> None:
    assert len(UNFIT) >= 12
    assert {expected_check(p) for p in UNFIT} == set(Check) - {Check.FINITE, Check.SHAPES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_fit(path: Path, fresh: dict[str, str]) -> None:
    assert lint_task(load_task(path), fresh_digest=fresh[str(path)]) == ()


@pytest.mark.parametrize("name", FIT)
def test_honest_task_is_fit(load_torch: Load, name: str) -> None:
    source, inputs = FIT[name]
    task = load_torch(
        f"def reference(x):\n    return {source}\n\n\ndef inputs():\n    return [{inputs}]\n"
    )
    assert lint_task(task) == ()


def test_update_of_one_row_is_fit(load_torch: Load) -> None:
    task = load_torch("""
        UPDATES = ("cache",)

        def reference(cache, row):
            cache[7] = row

        def inputs():
            return [torch.randn(40, 96), torch.randn(96)]
    """)
    assert lint_task(task) == ()


def test_reference_that_breaks_on_a_family_is_found(load_torch: Load) -> None:
    task = load_torch(
        "def reference(x):\n    return x.pow(12)\n\n\n"
        "def inputs():\n    return [torch.randn(40, 96)]\n"
    )
    scales = {**task.dev.scales, Family.BIG: FamilyScale(factor=1e30)}
    dev = replace(task.dev, scales=scales)
    assert Check.FINITE in checks(lint_task(replace(task, dev=dev, perf=dev)))


def test_shape_set_of_another_rank_is_found(load_torch: Load) -> None:
    task = load_torch(
        "def reference(x):\n    return torch.exp(x)\n\n\n"
        "def inputs():\n    return [torch.randn(40, 96)]\n"
    )
    outputs = (replace(task.outputs[0], shape=(3840,)),)
    perf = replace(task.dev, name="perf", outputs=outputs)
    found = lint_task(replace(task, perf=perf))
    assert checks(found) == {Check.SHAPES}
    assert "`output` in the shape set `perf`" in found[0].what
