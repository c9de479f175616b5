"""NK105 and NK106: calls fit their signatures, in the current dialect's form."""

import pytest

from tests.check.checked import check_body, codes


@pytest.mark.parametrize(
    ("call", "part"),
    [
        ("nisa.activation(dst=x, op=nl.exp, dat=x)", "has no argument `dat`"),
        ("nisa.activation(dst=x, op=nl.exp)", "lacks `data`"),
        ("nisa.reciprocal(x, x, x, x, x)", "takes 3 arguments, not 5"),
        ("nisa.reciprocal(x, x, dst=x)", "gets `dst` twice"),
        ("nl.ndarray((1, 1), nl.float32, memory=nl.psum)", "has no argument `memory`"),
        ("nl.ndarray((1, 1))", "lacks `dtype`"),
        ("nisa.memset(x, 0, **{'a': 1}, nope=1)", "has no argument `nope`"),
    ],
)
def test_call_that_does_not_fit_is_refused(call: str, part: str) -> None:
    findings = check_body(call)
    assert set(codes(findings)) == {"NK105"}
    assert part in findings[0].what
    assert "the signature is `n" in findings[0].hint


def test_hint_names_the_nearest_argument_and_the_signature() -> None:
    findings = check_body("nisa.tensor_copy(dst=x, source=x)")
    assert findings[0].hint == (
        "did you mean `src`? the signature is"
        " `nisa.tensor_copy(dst, src, engine=engine.unknown, name=None)`"
    )


@pytest.mark.parametrize(
    "call",
    [
        "nisa.tensor_copy(x, x)",
        "nisa.tensor_copy(src=x, dst=x, name='copy')",
        "nisa.activation(x, nl.exp, x, scale=2.0)",
        "nisa.tensor_tensor(*[x, x], x, op=nl.add)",
        "nisa.tensor_tensor(**{'dst': x})",
        "t = nisa.tensor_copy(dst=x, src=x)",
        "t = nl.exp(x, dtype=nl.float32)",
    ],
)
def test_call_that_fits_is_good(call: str) -> None:
    assert check_body(call) == []


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (
            "y = nisa.activation(op=nl.exp, data=x)",
            "then write `nisa.activation(dst=y, op=nl.exp, data=x)`",
        ),
        ("y[0:4] = nisa.reciprocal(x)", "write `nisa.reciprocal(y[0:4], x)`"),
        ("return nisa.reciprocal(data=x)", "then write `nisa.reciprocal(dst=dst, data=x)`"),
    ],
)
def test_result_that_is_taken_as_a_tile_is_the_older_dialect(call: str, hint: str) -> None:
    (finding,) = check_body(call)
    assert finding.code == "NK106"
    assert finding.hint.endswith(hint)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        ("nl.load(x, mask=x > 0)", "slice"),
        ("nisa.tensor_copy(dst=x, src=x, mask=x)", "slice"),
        ("nisa.tensor_copy(dst=x, src=x, dtype=nl.bfloat16)", "dtype of `dst`"),
        ("nisa.tensor_tensor(x, x, x, op=np.add)", "`op=nl.add`"),
        ("nisa.tensor_reduce(x, np.max, x, 1)", "`op=nl.maximum`"),
    ],
)
def test_arguments_of_the_older_dialect_are_refused_with_the_new_form(call: str, part: str) -> None:
    (finding,) = check_body(call)
    assert finding.code == "NK106"
    assert part in finding.hint
