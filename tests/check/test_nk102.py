"""NK102: the entry of a kernel file."""

import pytest

from tests.check.checked import check_file, codes

ONE = "import nki\n\n\n@nki.jit\ndef {name}(x):\n    return x\n\n\n"


@pytest.mark.parametrize(
    "source",
    [
        ONE.format(name="softmax"),
        ONE.format(name="kernel") + ONE.format(name="other"),
        "from nki import jit\n@jit\ndef f(x):\n    return x\n",
        "import nki as n\n@n.jit\ndef f(x):\n    return x\n",
        "import nki\ndef f(x):\n    return x\nkernel = nki.jit(f)\n",
        ONE.format(name="kernel") + "grid = (1,)\n",
        ONE.format(name="kernel") + "def grid(x):\n    return (1,)\n",
    ],
)
def test_entry_is_the_only_jit_function_or_the_one_named_kernel(source: str) -> None:
    assert check_file(source) == []


@pytest.mark.parametrize(
    ("source", "got"),
    [
        (ONE.format(name="one") + ONE.format(name="two"), "`one`, `two`"),
        ("def kernel(x):\n    return x\n", "no `@nki.jit` function"),
        ("", "no `@nki.jit` function"),
    ],
)
def test_missing_or_unclear_entry_is_refused(source: str, got: str) -> None:
    (finding,) = check_file(source)
    assert (finding.code, finding.got) == ("NK102", got)


def test_entry_that_is_asked_for_by_name_must_exist() -> None:
    source = ONE.format(name="one") + ONE.format(name="two")
    assert check_file(source, entry="two") == []
    assert codes(check_file(source, entry="three")) == ["NK102"]
