"""NK119: kernels off the surface `isa`, at the line that leaves it."""

import textwrap

import pytest

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.source import check_source
from nki_agent.check.surface import Surface, is_kept
from nki_agent.chip.spec import Target
from nki_agent.nki.current.modules import MODULES
from tests.check.checked import FIRST_LINE, HEAD, check_body
from tests.isa_kernels import LEAKY_RELU, MATMUL

TILE = "t = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, address=(0, 0))\n"


def check_isa(body: str) -> list[Diagnostic]:
    text = HEAD + textwrap.indent(textwrap.dedent(body), "    ") + "    return x\n"
    return _check(text)


def _check(text: str) -> list[Diagnostic]:
    return check_source({"kernel.py": text}, "kernel.py", target=Target.TRN2, surface=Surface.ISA)


@pytest.mark.parametrize("text", [LEAKY_RELU, MATMUL])
def test_kernel_on_the_surface_is_good(text: str) -> None:
    assert _check(text) == []


@pytest.mark.parametrize(
    ("body", "line", "part", "hint"),
    [
        (TILE + "u = nl.exp(t)\n", 1, "`nl.exp()`", "op=nl.exp"),
        ("t = nl.load(x)\n", 0, "`nl.load`", "nisa.dma_copy"),
        (TILE + "nl.store(x, t)\n", 1, "`nl.store`", "nisa.dma_copy"),
        ("t = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)\n", 0, "in PSUM", "address="),
        ("t = nl.ndarray((128, 64), nl.float32, address=None)\n", 0, "in SBUF", "address="),
        ("t = nl.zeros((128, 64), nl.float32)\n", 0, "`nl.zeros`", "nisa.memset"),
        ("t = nl.shared_identity_matrix(64)\n", 0, "`nl.shared_identity_matrix`", "memset"),
        ("for i in nl.affine_range(4):\n    pass\n", 0, "`nl.affine_range`", "`range`"),
    ],
)
def test_kernel_off_the_surface_is_refused_at_its_line(
    body: str, line: int, part: str, hint: str
) -> None:
    (finding,) = [f for f in check_isa(body) if f.code == "NK119"]
    assert finding.where[-1].line == FIRST_LINE + line
    assert part in finding.what
    assert hint in finding.hint


def test_function_under_an_imported_name_is_refused() -> None:
    body = "from nki.language import exp\n" + TILE + "u = exp(t)\n"
    (finding,) = [f for f in check_isa(body) if f.code == "NK119"]
    assert finding.where[-1].line == FIRST_LINE + 2


def test_code_that_cannot_run_is_not_judged() -> None:
    text = "def other(x):\n    return nl.load(x)\n\n\n" + HEAD + "    return x\n"
    assert [f for f in _check(text) if f.code == "NK119"] == []


def test_tensor_in_hbm_needs_no_address() -> None:
    assert check_isa("y = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)\n") == []


def test_all_of_the_language_is_on_the_surface_nki() -> None:
    assert check_body("t = nl.load(x)\nu = nl.exp(t)\nreturn x") == []


def test_kept_names_of_the_language_are_its_names() -> None:
    kept = {name for name in MODULES["nki.language"] if is_kept(name)}
    assert {"ndarray", "sbuf", "bfloat16", "multiply", "fori_loop"} <= kept
    assert not kept & {"load", "store", "zeros", "full", "matmul", "softmax", "where", "copy_like"}
