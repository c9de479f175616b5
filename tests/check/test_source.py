"""What holds for every finding, and for any text."""

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from nki_agent.base.catalogue import CATALOGUE
from nki_agent.check.parsed import SOURCE_CHARS_MAX
from nki_agent.check.source import FINDINGS_MAX, check_source
from nki_agent.chip.spec import Target
from tests.check.checked import FIRST_LINE, HEAD, check_body, check_file, check_module, codes

GOOD = (
    HEAD
    + """\
    rows, cols = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, nl.tile_size.pmax):
        size = min(nl.tile_size.pmax, rows - start)
        tile = nl.ndarray((size, cols), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + size])
        nisa.activation(dst=tile, op=nl.exp, data=tile, scale=2.0)
        nisa.dma_copy(dst=out[start : start + size], src=tile)
    return out
"""
)


def test_good_kernel_has_no_findings() -> None:
    assert check_file(GOOD) == []


def test_findings_come_by_line_with_file_and_function() -> None:
    findings = check_body("a = [i for i in x]\nnisa.nope(dst=a)\nb = nl.arange(3)")
    assert [str(f.where[-1]) for f in findings] == [f"kernel.py:{FIRST_LINE + i}" for i in range(3)]
    assert {f.where[-1].function for f in findings} == {"kernel"}
    assert codes(findings) == ["NK103", "NK104", "NK106"]


def test_main_file_comes_before_its_helpers() -> None:
    source = "from helper import f\n" + HEAD + "    return f([i for i in x])\n"
    findings = check_file(source, {"helper": "def f(x):\n    return [i for i in x]\n"})
    assert [f.where[-1].file for f in findings] == ["kernel.py", "helper.py"]


def test_number_of_findings_is_bounded() -> None:
    assert len(check_body("\n".join(["nisa.nope()"] * 500))) == FINDINGS_MAX


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("x = = 1", "syntax"),
        ("return '\ud800'", "surrogates"),
        ("a\0b", "null bytes"),
        ("(" * 500 + ")" * 500, "nested"),
        ("return " + "-" * 5000 + "1", "deep"),
        ("return " + "not " * 50_000 + "1", "stack"),
        ("return x" + ".a" * 20_000, "deep"),
        ("x = '" + "a" * SOURCE_CHARS_MAX + "'", "length"),
    ],
)
def test_text_that_is_no_source_is_a_finding(body: str, part: str) -> None:
    (finding,) = check_file(HEAD + "    " + body + "\n")
    assert finding.code == "NK101"
    assert part in finding.what


def test_syntax_error_in_a_helper_names_the_helper() -> None:
    findings = check_file("from helper import f\n" + GOOD, {"helper": "def f(:\n"})
    assert [(f.code, f.where[-1].file) for f in findings] == [("NK101", "helper.py")]


def test_names_in_messages_hold_no_control_characters() -> None:
    files = {"ke\x1brnel.py": "@nope\ndef kernel(x):\n    return x\n"}
    findings = check_source(files, "ke\x1brnel.py", target=Target.TRN2)
    assert findings
    assert all("\x1b" not in str(f) + f.what + f.where[-1].file for f in findings)


def test_code_under_the_main_guard_is_not_judged() -> None:
    source = (
        GOOD
        + """
if __name__ == "__main__":
    import os
    import torch

    exec(open("x").read())
    os._exit(0)
"""
    )
    assert check_file(source) == []


def test_host_code_that_nothing_runs_is_not_judged() -> None:
    source = (
        GOOD + "\ndef inputs():\n    import torch\n    return [torch.ones(i) for i in (1, 2)]\n"
    )
    assert check_file(source) == []


def test_host_code_that_runs_at_import_may_be_any_python() -> None:
    assert check_module("SIZES = tuple(2**i for i in range(4))\nf = lambda n: n + 1\n") == []


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_findings_and_no_exception(text: str) -> None:
    findings = check_source({"kernel.py": text}, "kernel.py", target=Target.TRN2)
    assert all(f.code in CATALOGUE for f in findings)
    msgspec.json.encode(findings)


TOKENS = [
    "nl",
    ".",
    "nisa",
    "(",
    ")",
    "[",
    "]",
    "=",
    ",",
    ":",
    "*",
    "**",
    "x",
    "kernel",
    "nki",
    "jit",
    "\n",
    "\n    ",
    "\n        ",
    "def ",
    "class ",
    "return ",
    "if ",
    "else",
    "for ",
    "in ",
    "with ",
    "lambda ",
    "import ",
    "from ",
    "as ",
    "del ",
    "global ",
    "try",
    "except",
    "@",
    "is ",
    "not ",
    "None",
    "'a'",
    "f'{x}'",
    "1",
    "-",
    "exp",
    "mask",
    "dst",
    "__dict__",
    "getattr",
    "setattr",
    "match ",
    "case ",
    "async ",
    "await ",
    "yield ",
    "numpy",
    "os",
    ":=",
    "{",
    "}",
    "...",
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=40), st.integers(0, len(GOOD)))
def test_mangled_kernels_give_findings_and_no_exception(tokens: list[str], place: int) -> None:
    text = GOOD[:place] + "".join(tokens) + GOOD[place:]
    msgspec.json.encode(check_source({"kernel.py": text}, "kernel.py", target=Target.TRN2))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=30))
def test_token_soup_gives_findings_and_no_exception(tokens: list[str]) -> None:
    text = "import numpy\nimport nki\nimport os\n" + "".join(tokens)
    msgspec.json.encode(check_source({"kernel.py": text}, "kernel.py", target=Target.TRN2))
