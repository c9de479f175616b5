"""NK107: what a kernel file may import."""

import pytest

from nki_agent.base.diagnostic import Severity
from nki_agent.check.source import check_source
from nki_agent.chip.spec import Target
from tests.check.checked import HEAD, check_module, codes


@pytest.mark.parametrize(
    "statement",
    [
        "import math, itertools, functools\n",
        "from typing import Optional\nfrom dataclasses import dataclass\nfrom enum import Enum\n",
        "import ml_dtypes\nimport numpy.typing as npt\n",
        "from __future__ import annotations\n",
        "import nki.typing as nt\n",
    ],
)
def test_allowed_import_is_good(statement: str) -> None:
    assert check_module(statement) == []


@pytest.mark.parametrize("name", ["torch", "os", "sys", "subprocess", "socket", "ctypes", "gc"])
def test_other_import_is_refused(name: str) -> None:
    (finding,) = check_module(f"import {name}\n")
    assert finding.code == "NK107"
    assert f"`{name}`" in finding.what
    assert "numpy" in finding.hint


def test_import_that_the_file_can_go_without_is_a_warning() -> None:
    code = "try:\n    import torch\nexcept ImportError:\n    torch = None\n"
    assert [(f.code, f.severity) for f in check_module(code)] == [("NK107", Severity.WARNING)]


def test_helper_module_beside_the_kernel_may_be_imported() -> None:
    code = "import tiles\nfrom tiles import size\n"
    assert check_module(code, {"tiles": "size = 4\n"}) == []
    assert set(codes(check_module(code))) == {"NK107"}


def test_relative_import_works_inside_of_a_package_only() -> None:
    files = {
        "kernel.py": "import pack.a\n" + HEAD + "    return x\n",
        "pack/__init__.py": "from . import a\n",
        "pack/a.py": "from .b import c\n",
        "pack/b.py": "c = 1\n",
    }
    assert check_source(files, "kernel.py", target=Target.TRN2) == []
    files["pack/a.py"] = "from .nope import c\n"
    assert codes(check_source(files, "kernel.py", target=Target.TRN2)) == ["NK107"]
    beside = check_module("from .tiles import size\n", {"tiles": "size = 4\n"})
    assert codes(beside) == ["NK107"]
    assert "from tiles import" in beside[0].hint


@pytest.mark.parametrize(
    "statement", ["import neuronxcc.nki as nki\n", "from neuronxcc import nki\n"]
)
def test_older_dialect_is_refused_as_such(statement: str) -> None:
    findings = check_module(statement)
    assert codes(findings) == ["NK106"]
    assert "`import nki`" in findings[0].hint


def test_names_of_the_older_dialect_are_judged_too() -> None:
    source = HEAD.replace("import nki.language", "import neuronxcc.nki.language")
    files = {"kernel.py": source + "    return nl.load(x, mask=nl.arange(4))\n"}
    found = codes(check_source(files, "kernel.py", target=Target.TRN2))
    assert found == ["NK106", "NK106", "NK106"]


def test_our_own_package_is_a_trick() -> None:
    assert codes(check_module("import nki_agent.sim\n")) == ["NK903"]
