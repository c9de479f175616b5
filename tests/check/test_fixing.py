"""Edits that findings carry, and what `--fix` makes of a file."""

import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_agent.base.diagnostic import Severity
from nki_agent.check.fixing import Fixed, fix_source
from nki_agent.chip.spec import Target
from tests.check.checked import HEAD
from tests.check.test_source import GOOD, TOKENS


def fix(source: str) -> Fixed:
    return fix_source({"kernel.py": source}, "kernel.py", target=Target.TRN2)


def fix_body(body: str) -> str:
    """A kernel body after its edits."""
    text = HEAD + textwrap.indent(body, "    ") + "\n"
    fixed = fix(text).text
    assert fixed.startswith(HEAD)
    assert fix(fixed).num_fixes == 0
    return textwrap.dedent(fixed.removeprefix(HEAD)).removesuffix("\n")


TILES = "t = nl.ndarray((128, 512), nl.float32)\np = nl.zeros((128, 512), nl.float32, nl.psum)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("nisa.activaton(x, nl.exp, x)", "nisa.activation(x, nl.exp, x)"),
        ("u = nl.expp(x)", "u = nl.exp(x)"),
        ("u = nl.sigmiod(x)", "u = nl.sigmoid(x)"),
        ("u = nl.tensor_copy", "u = nisa.tensor_copy"),
        ("u = nisa.reduce_cmd.rest_reduce", "u = nisa.reduce_cmd.reset_reduce"),
        ("u = nisa.constants.engine.vectr", "u = nisa.constants.engine.vector"),
        ("nisa.tensor_copy(dst=x, source=x)", "nisa.tensor_copy(dst=x, src=x)"),
        ("nisa.tensor_copy(out=x, src=x)", "nisa.tensor_copy(dst=x, src=x)"),
        ("nisa.register_move(x, imm=1)", "nisa.register_move(x, src=1)"),
        ("u = x.dtype is nl.float32", "u = x.dtype == nl.float32"),
        ("u = (x) is  not (1)", "u = (x) != (1)"),
        ("nisa.tensor_tensor(x, x, x, op=np.add)", "nisa.tensor_tensor(x, x, x, op=nl.add)"),
        ("nisa.tensor_reduce(x, np.max, x, 1)", "nisa.tensor_reduce(x, nl.maximum, x, 1)"),
        ("nisa.tensor_reduce(x, 'add', x, 1)", "nisa.tensor_reduce(x, nl.add, x, 1)"),
        (
            "nisa.tensor_copy(x, x, engine=5)",
            "nisa.tensor_copy(x, x, engine=nisa.engine.vector)",
        ),
        (
            "nisa.tensor_copy(x, x, engine='vector')",
            "nisa.tensor_copy(x, x, engine=nisa.engine.vector)",
        ),
        (
            "nisa.dma_copy(x, x, oob_mode=1)",
            "nisa.dma_copy(x, x, oob_mode=nisa.oob_mode.skip)",
        ),
        (
            "nisa.tensor_copy(x, x, nisa.vector_engine)",
            "nisa.tensor_copy(x, x, nisa.engine.vector)",
        ),
        ("u = nl.zeros((1, 1), nl.int8, 'psum')", "u = nl.zeros((1, 1), nl.int8, nl.psum)"),
        ("u = nl.zeros((nl.par_dim(4), 1), nl.int8)", "u = nl.zeros((4, 1), nl.int8)"),
        ("for i in nl.affine_range(2, 4):\n    pass", "for i in range(2, 4):\n    pass"),
        ("u = nl.tile_size.psum_fmax", "u = nl.tile_size.psum_bank_fmax"),
        ("x[...] = nisa.reciprocal(x)", "nisa.reciprocal(x[...], x)"),
        ("x[0:4, :] = nisa.reciprocal(data=x)", "nisa.reciprocal(dst=x[0:4, :], data=x)"),
    ],
)
def test_mechanical_fault_is_fixed(before: str, after: str) -> None:
    assert fix_body(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t = nisa.reciprocal(t)", "nisa.reciprocal(t, t)"),
        ("p[...] += nisa.nc_matmul(t, t)", "nisa.nc_matmul(p[...], t, t)"),
        (
            "p += nisa.nc_matmul(\n    t,  # one\n    t)",
            "nisa.nc_matmul(p, \n    t,  # one\n    t)",
        ),
        ("u = t + t * 2.0", "u = nl.add(t, nl.multiply(t, 2.0))"),
        ("t += p", "nisa.tensor_tensor(dst=t, data1=t, data2=p, op=nl.add)"),
        ("t *= 2.0", "nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)"),
        ("t[:, 0:4] = p[:, 0:4]", "nisa.tensor_copy(dst=t[:, 0:4], src=p[:, 0:4])"),
    ],
)
def test_habit_on_a_tile_that_exists_is_fixed(before: str, after: str) -> None:
    assert fix_body(TILES + before) == TILES + after


@pytest.mark.parametrize(
    "body",
    [
        "u = nisa.reciprocal(x)",  # no tile to write to
        "parts = [0, 0]\nparts[0] = nisa.reciprocal(x)",  # a list
        "u = nl.log1",
        "u = nl.exp2(x)",
        "u = nl.sinh(x)",
        "u = nl.hsigmoid(x)",
        "u = nl.lrelu(x)",
        "u = nl.selu(x)",
        "u = nl.float61",
        "nisa.tensor_copy(dst=x, src=x, mask=x)",
        TILES + "t[...] = nisa.iota(t, nl.int32)",  # other arguments
        TILES + "p += p",  # two operands in PSUM
        TILES + "u = t / 2.0",
    ],
)
def test_what_needs_a_person_is_left_alone(body: str) -> None:
    assert fix_body(body) == body
    assert fix(HEAD + textwrap.indent(body, "    ") + "\n").findings


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import neuronxcc.nki as nki\n", "import nki\n"),
        ("from neuronxcc import nki  # keep\n", "import nki  # keep\n"),
        ("import nki, neuronxcc.nki.language as nl\n", "import nki, nki.language as nl\n"),
        (
            "import nki\nfrom neuronxcc.nki import (\n    isa,)\n",
            "import nki\nfrom nki import (\n    isa,)\n",
        ),
    ],
)
def test_import_of_the_older_package_is_fixed(before: str, after: str) -> None:
    rest = "@nki.jit\ndef kernel(x):\n    return x\n"
    assert fix(before + rest).text == after + rest


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("@nki.jit(mode='trace')", "@nki.jit"),
        ("@nki.jit(  mode = 'trace' )", "@nki.jit"),
        ("@nki.trace", "@nki.jit"),
    ],
)
def test_decorator_of_the_older_dialect_is_fixed(before: str, after: str) -> None:
    source = f"import nki\n{before}\ndef kernel(x):\n    return x\n"
    assert fix(source).text == source.replace(before, after)


def test_line_ends_comments_and_wide_characters_stay() -> None:
    body = "    s = 'é→𝄞'; u = x is 1  # is it? é\r\n\r\n\t\r\n    return x\r\n"
    source = HEAD.replace("\n", "\r\n") + body
    assert fix(source).text == source.replace("x is 1", "x == 1")


@pytest.mark.parametrize("source", ["import nki\ndef f(:\n", HEAD + "    u = x is 1\r    v = 2\n"])
def test_file_that_cannot_be_read_safely_is_left_alone(source: str) -> None:
    assert fix(source).text == source


def test_helper_module_is_read_and_not_changed() -> None:
    files = {
        "kernel.py": "import helper\n" + HEAD + "    return helper.f(x)\n",
        "helper.py": "def f(x):\n    return x is 1\n",
    }
    fixed = fix_source(files, "kernel.py", target=Target.TRN2)
    assert fixed.text == files["kernel.py"]
    assert [f.code for f in fixed.findings] == ["NK108"]


def test_more_findings_than_are_shown_are_all_fixed() -> None:
    lines = [f"    u{i} = x is {i}" for i in range(80)]
    fixed = fix(HEAD + "\n".join(lines) + "\n    return x\n")
    assert (fixed.num_fixes, fixed.findings) == (80, ())


def test_advice_is_no_error() -> None:
    fixed = fix(HEAD + "    for i in nl.dynamic_range(3):\n        pass\n    return x\n")
    assert [(f.code, f.severity) for f in fixed.findings] == [("NK118", Severity.ADVICE)]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=30), st.integers(0, len(GOOD)))
def test_fixing_twice_is_fixing_once(tokens: list[str], place: int) -> None:
    once = fix(GOOD[:place] + "".join(tokens) + GOOD[place:]).text
    assert fix(once).text == once
