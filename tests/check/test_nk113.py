"""NK113: globals that can change."""

import pytest

from nki_agent.base.diagnostic import Severity
from tests.check.checked import HEAD, check_file

READ = HEAD + "    return SCALE\n"


@pytest.mark.parametrize(
    "code",
    [
        "SCALE = 2.0\n",
        "SCALE = [1, 2]\nSIZES = []\nSIZES.append(3)\n",
        "SCALE, OTHER = 1, 2\n",
        "import sys as s\nif len('a'):\n    SCALE = 1\nelse:\n    SCALE = 2\n",
    ],
)
def test_constant_is_good(code: str) -> None:
    assert [f for f in check_file(code + READ) if f.code == "NK113"] == []


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("SCALE = 2.0\nSCALE = 3.0\n", "more than once"),
        ("SCALE = 2.0\nSCALE += 1\n", "more than once"),
        ("SCALE = 2.0\ndef set():\n    global SCALE\n    SCALE = 3\n", "global"),
        ("SCALE = []\ndef add():\n    SCALE.append(1)\n", "append"),
        ("SCALE = {}\ndef add():\n    SCALE['a'] = 1\n", "in place"),
    ],
)
def test_global_that_something_changes_is_a_warning(code: str, part: str) -> None:
    (finding,) = [f for f in check_file(code + READ) if f.code == "NK113"]
    assert finding.severity is Severity.WARNING
    assert part in finding.what
    assert "global `SCALE`" in finding.what
    assert "cache" in finding.what


def test_name_that_the_kernel_binds_itself_is_no_global() -> None:
    source = "SCALE = 1\nSCALE = 2\n" + HEAD + "    SCALE = 3\n    return SCALE\n"
    assert check_file(source) == []
