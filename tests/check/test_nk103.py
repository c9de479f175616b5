"""NK103 and NK108: what is outside of the language."""

import pytest

from nki_agent.base.diagnostic import Severity
from tests.check.checked import HEAD, check_body, check_file, codes


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("t = [i for i in range(3)]", "comprehension"),
        ("t = {i: i for i in range(3)}", "comprehension"),
        ("t = list(i for i in range(3))", "comprehension"),
        ("f = lambda a: a", "lambda"),
        ("try:\n    pass\nexcept ValueError:\n    pass", "try"),
        ("yield x", "generator"),
        ("global A", "global"),
        ("d = {1: 2}", "key"),
        ("del x", "del"),
        ("with open_scope():\n    pass", "with"),
        ("async def f():\n    pass", "async"),
        ("class A:\n    pass", "class `A`"),
        ("class A(nl.NKIObject, dict):\n    pass", "class `A`"),
    ],
)
def test_construct_that_the_compiler_refuses_is_an_error(body: str, part: str) -> None:
    findings = [f for f in check_body(body) if f.code == "NK103"]
    assert [f.severity for f in findings] == [Severity.ERROR]
    assert part in findings[0].what
    assert findings[0].hint


@pytest.mark.parametrize(
    "body",
    [
        "import math",
        "t = {1, 2}",
        "if (n := 1):\n    pass",
        "raise ValueError",
        "c = 2j",
        "c = 2**1 + 4294967296",
    ],
)
def test_construct_that_the_guides_are_silent_on_is_a_warning(body: str) -> None:
    assert [(f.code, f.severity) for f in check_body(body)] == [("NK103", Severity.WARNING)]


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(3):\n    while i:\n        i -= 1\n    else:\n        pass",
        "d = {'a': 1}\nl = [1, 2]\nl.append(3)\nassert len(l) == 3",
        "def inner(a):\n    return a\nt = inner(x)",
        "class A(nl.NKIObject):\n    a: int = 1",
        "t = x if x is None else 1\nu = x is not True",
        "print(f'{x.shape}')",
    ],
)
def test_construct_of_the_language_guide_is_good(body: str) -> None:
    assert check_body(body) == []


@pytest.mark.parametrize(
    ("signature", "part"),
    [
        ("x, *, scale=1.0", "keyword-only"),
        ("*xs", "*args"),
        ("x, **more", "*args"),
        ("x, n=[1]", "list"),
    ],
)
def test_signature_that_the_compiler_refuses_is_an_error(signature: str, part: str) -> None:
    source = HEAD.replace("kernel(x)", f"kernel({signature})") + "    return 1\n"
    (finding,) = check_file(source)
    assert finding.code == "NK103"
    assert part in finding.what


def test_function_that_a_kernel_calls_is_kernel_code() -> None:
    helper = "def f(x):\n    return g(x)\n\ndef g(x):\n    return [i for i in x]\n"
    assert codes(check_file(helper + HEAD + "    return f(x)\n")) == ["NK103"]
    assert codes(check_file(helper + HEAD + "    return x\n")) == []


def test_function_that_a_kernel_is_given_from_a_helper_module_is_kernel_code() -> None:
    helper = "def f(x):\n    return [i for i in x]\n"
    by_name = "from helper import f as g\n" + HEAD + "    return g(x)\n"
    by_module = "import helper\n" + HEAD + "    return helper.f(x)\n"
    for source in (by_name, by_module):
        (finding,) = check_file(source, {"helper": helper})
        assert (finding.code, finding.where[-1].file) == ("NK103", "helper.py")


@pytest.mark.parametrize("body", ["t = x is 1", "t = x is not x", "t = 1 < 2 is x"])
def test_identity_with_other_than_none_and_flags_is_refused(body: str) -> None:
    assert codes(check_body(body)) == ["NK108"]


def test_identity_hint_shows_the_comparison() -> None:
    (finding,) = check_body("t = x.dtype is nl.float32")
    assert finding.hint == "use `==`: `x.dtype == nl.float32`"
