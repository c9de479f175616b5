"""NK106, NK110, NK115, NK116 and NK308: what tiles, registers, launches and constants cannot do."""

import pytest

from tests.check.checked import HEAD, check_body, check_file, codes

TILE = "t = nl.load(x)\n"
REGISTER = "r = nisa.register_alloc(0)\n"


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        ("u = t + x", "nl.add"),
        ("u = 1.0 / t", "nl.reciprocal"),
        ("u = t[:, 0:4] @ t", "nisa.nc_matmul"),
        ("u = t > 0", "nl.greater"),
        ("t += 1", "nl.add"),
        ("u = t.reshape((1, 2)) * 2", "nl.multiply"),
        ("u = nl.exp(t) - 1", "nl.subtract"),
    ],
)
def test_operator_on_a_tile_is_refused_with_the_function(use: str, hint: str) -> None:
    (finding,) = check_body(TILE + use)
    assert finding.code == "NK115"
    assert hint in finding.hint


@pytest.mark.parametrize(
    "body",
    [
        TILE + "if t:\n    pass",
        TILE + "u = float(t)",
        TILE + "for row in t:\n    pass",
        TILE + "u = len(t)",
        REGISTER + "while r:\n    pass",
        REGISTER + "if not r:\n    pass",
        REGISTER + "for i in range(r):\n    pass",
    ],
)
def test_value_of_a_tile_or_a_register_is_refused(body: str) -> None:
    assert codes(check_body(body)) == ["NK110"]


@pytest.mark.parametrize(
    "body",
    [
        "t = nl.load(x)\nt = 3\nu = t + 1",
        "for t in range(3):\n    u = t + 1\nt = nl.load(x)",
        "def f(t):\n    return t + 1\nt = nl.load(x)",
        "t = nl.load(x)\nu = t.shape[0] + 1\nv = t.dtype == x.dtype",
        "u = x + 1",
        "r = nisa.register_alloc(0)\nt = nl.load(x)\nu = t.ap([[1, 1], [1, 1]], scalar_offset=r)",
    ],
)
def test_name_that_may_hold_something_else_is_not_judged(body: str) -> None:
    assert codes(check_body(body)) == []


@pytest.mark.parametrize(
    ("use", "part"),
    [
        ("t[...] = t", "tensor_copy"),
        ("t[0:4, :] = 0.0", "memset"),
        ("u = t.astype(nl.bfloat16)", "nl.copy"),
        ("u = t.broadcast_to((128, 4))", "broadcast"),
    ],
)
def test_tile_of_the_older_dialect_is_refused_with_the_new_form(use: str, part: str) -> None:
    (finding,) = check_body(TILE + use)
    assert finding.code == "NK106"
    assert part in finding.hint


def test_accumulation_into_psum_names_the_matmul() -> None:
    (finding,) = check_body("p = x\np[...] += nisa.nc_matmul(x, x)")
    assert finding.code == "NK106"
    assert finding.hint.endswith("write `nisa.nc_matmul(p[...], x, x)`")


@pytest.mark.parametrize(
    ("use", "got"),
    [
        ("u = other[4, 4](x)", "`other[4, 4]`"),
        ("u = other[8](x)", "`other[8]`"),
        ("u = other[True](x)", "`other[True]`"),
        ("u = other[2](x)", ""),
        ("u = other[x.shape[0]](x)", ""),
    ],
)
def test_launch_on_a_grid_is_refused(use: str, got: str) -> None:
    other = HEAD.replace("kernel(x)", "other(x)") + "    return x\n\n"
    findings = check_file(other + HEAD + f"    {use}\n    return u\n")
    assert [(f.code, f.got) for f in findings] == ([("NK116", got)] if got else [])


@pytest.mark.parametrize(("grid", "bad"), [("(4, 4)", True), ("(2,)", False), ("len('a')", False)])
def test_grid_of_the_file_is_one_or_two_cores(grid: str, bad: bool) -> None:
    findings = check_file(HEAD + f"    return x\n\ngrid = {grid}\n")
    assert codes(findings) == (["NK116"] if bad else [])


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        ("nisa.tensor_copy(x, x, engine=5)", "write `engine=nisa.engine.vector`"),
        ("nisa.tensor_copy(x, x, engine=99)", "pass a member of `nisa.engine`"),
        ("u = nl.ndarray((1, 1), nl.int8, buffer='hbm')", "write `buffer=nl.hbm`"),
        ("u = nl.ndarray((1, 1), nl.int8, buffer='dram')", "pass nl.sbuf"),
    ],
)
def test_literal_in_the_place_of_a_constant_is_refused(use: str, hint: str) -> None:
    (finding,) = check_body(use)
    assert finding.code == "NK308"
    assert finding.hint.startswith(hint)


def test_body_of_a_loop_on_the_device_is_a_nested_function() -> None:
    body = (
        "t = nl.ndarray((1, 1), nl.int32)\nr = nisa.register_alloc()\n"
        "def step(i):\n    nisa.register_load(i, t)\n    return i\nnl.while_loop(r, step)\n"
        "def body(i):\n    nisa.register_store(t, i)\nnl.fori_loop(0, r, body)"
    )
    assert check_body(body) == []
    assert codes(check_body("nl.fori_loop(0, 4, lambda i: None)")) == ["NK103"]


@pytest.mark.parametrize("name", ["baremetal", "benchmark", "profile"])
def test_decorator_that_is_gone_still_marks_the_kernel(name: str) -> None:
    source = HEAD.replace("@nki.jit", f"@nki.{name}") + "    return x is 1\n"
    assert codes(check_file(source)) == ["NK106", "NK108"]


def test_argument_of_jit_that_is_not_known_is_refused() -> None:
    source = HEAD.replace("@nki.jit", "@nki.jit(platform_target='trn1')") + "    return x\n"
    (finding,) = check_file(source)
    assert (finding.code, "--target" in finding.hint) == ("NK105", True)
