from pathlib import Path

import pytest

from tests.cli.calling import call
from tests.source import ROOT

UNFIT = ROOT / "tests/task/unfit"


def write_fit(folder: Path) -> Path:
    path = folder / "fit.py"
    path.write_text(
        "import numpy as np\n\n\ndef reference(x):\n    return np.exp(x)\n\n\n"
        "def inputs(rng):\n    return [rng.standard_normal((40, 96), dtype=np.float32)]\n"
    )
    return path


def test_lint_of_a_fit_task_is_clean(tmp_path: Path) -> None:
    found = call("task", "lint", write_fit(tmp_path))
    assert (found.code, found.out) == (0, "")
    assert "1 file, 0 findings" in found.err


def test_lint_of_an_unfit_task_says_what_and_what_to_do(tmp_path: Path) -> None:
    found = call("task", "lint", UNFIT / "hidden_array.py", write_fit(tmp_path))
    assert found.code == 1
    assert "hidden: a tensor that is neither an input nor a weight: shape [96]" in found.out
    assert "hint: make it an input" in found.out


def test_lint_as_json_has_a_record_for_each_file(tmp_path: Path) -> None:
    fit = write_fit(tmp_path)
    found = call("task", "lint", UNFIT / "hidden_array.py", fit, "--json")
    unfit, clean = found.document
    assert [f["check"] for f in unfit["findings"]] == ["hidden"]
    assert clean == {"file": str(fit), "findings": [], "error": ""}


def test_lint_of_an_unusable_file_exits_with_usage(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("x = 1\n")
    found = call("task", "lint", broken, write_fit(tmp_path))
    assert found.code == 2
    assert "has no model and no function" in found.err
    assert call("task", "lint", tmp_path / "none.py").code == 2


@pytest.mark.parametrize(
    ("body", "check"),
    [
        ("return x * 0 + 1", "constant"),
        ("return x / 0", "finite"),
        ("return x + np.random.default_rng().standard_normal()", "repeats"),
    ],
)
def test_lint_of_a_task_that_loading_finds_unfit_is_a_finding(
    tmp_path: Path, body: str, check: str
) -> None:
    path = write_fit(tmp_path)
    path.write_text(path.read_text().replace("return np.exp(x)", body))
    found = call("task", "lint", path)
    assert found.code == 1
    assert f"{check}: " in found.out
    assert "1 file, 1 finding" in found.err


def test_lint_counts_what_it_could_not_read_and_no_findings_of_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def reference(:\n")
    found = call("task", "lint", broken)
    assert (found.code, "finding" in found.err) == (2, False)
    assert "1 file, 1 could not be read" in found.err
    both = call("task", "lint", broken, write_fit(tmp_path))
    assert "2 files, 0 findings, 1 could not be read" in both.err


def test_fault_of_one_of_several_files_names_the_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text(write_fit(tmp_path).read_text().replace("(40, 96)", "(0, 96)"))
    found = call("task", "lint", write_fit(tmp_path), empty)
    assert found.code == 2
    assert "error: empty.py: the input" in found.err
