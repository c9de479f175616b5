"""`nl` functions of several instructions, traced and run: what they give."""

import math

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.sim.execute import RunResult, compile_program
from tests.kernels import body, refused, traced
from tests.sim.build import Array

F32 = np.dtype(np.float32)
BF16 = DType.BFLOAT16.numpy_dtype
TARGETS = [Target.TRN1, Target.TRN2, Target.TRN3]


def spec(name: str, array: Array) -> ArgumentSpec:
    return ArgumentSpec(name, array.shape, find_dtype(array.dtype))


def run(text: str, target: Target = Target.TRN2, /, **arrays: Array) -> RunResult:
    """What the kernel with this body gives for these arguments."""
    source = body(text, params=", ".join(arrays))
    program = traced(source, [spec(n, a) for n, a in arrays.items()], target=target)
    return compile_program(program, load_chip(target)).run(arrays)


def apply(call: str, x: Array, dtype: str = "x.dtype", target: Target = Target.TRN2) -> Array:
    """An expression of the loaded tile `t`, stored in a result of this dtype."""
    result = run(
        f"t = nl.load(x)\nout = nl.ndarray(x.shape, dtype={dtype}, buffer=nl.shared_hbm)\n"
        f"nl.store(out, {call})\nreturn out",
        target,
        x=x,
    )
    assert result.findings == ()
    return result.outputs[0]


EDGES = [0.0, -0.0, 0.3, -0.3, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 0.99999994, -1e-30]
LARGE = [2.0**23 - 0.5, 2.0**23 + 1, -(2.0**24) - 2, 3e9, -3e9, 1e38, math.inf, -math.inf]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_rounding_is_exact_for_every_float(name: str) -> None:
    random = rng_for(0, name).standard_normal(200).astype(F32) * np.float32(50)
    x = np.concatenate([np.array(EDGES + LARGE, F32), random])[None]
    assert apply(f"nl.{name}(t)", x).tolist() == getattr(np, name)(x).tolist()


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_rounding_keeps_nan(name: str) -> None:
    x = np.array([[np.nan, 1.5]], F32)
    assert np.isnan(apply(f"nl.{name}(t)", x)).tolist() == [[True, False]]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_rounding_leaves_integers_alone(name: str) -> None:
    x = np.array([[2**24 + 1, -7]], np.int32)
    assert apply(f"nl.{name}(t)", x).tolist() == x.tolist()


def test_rounding_gives_the_input_s_dtype_or_the_one_asked_for() -> None:
    x = np.array([[-1.5, 2.75]], BF16)
    assert apply("nl.floor(t)", x).astype(F32).tolist() == [[-2, 2]]
    assert apply("nl.ceil(t, dtype=nl.int8)", x, "nl.int8").tolist() == [[-1, 3]]
    assert apply("nl.trunc(t, dtype=nl.float32)", x, "nl.float32").tolist() == [[-1, 2]]


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize(("limit", "error"), [(3.2, 3e-7), (100.0, 5e-6), (20000.0, 1.2e-3)])
def test_waves_go_on_outside_of_one_turn(name: str, limit: float, error: float) -> None:
    plain = np.linspace(-limit, limit, 4001)[None].astype(F32)
    wanted = getattr(np, name)(plain.astype(np.float64))
    assert apply(f"nl.{name}(t)", plain) == pytest.approx(wanted, abs=error)


def test_sine_at_the_ends_of_a_turn_stays_in_the_valid_range() -> None:
    ends = np.outer(np.arange(-40, 41), [math.pi]).astype(F32)
    x = np.concatenate([np.nextafter(ends, F32.type(s * np.inf)) for s in (-1, 1)] + [ends], 1)
    wanted = np.sin(x.astype(np.float64))
    assert apply("nl.sin(t)", x) == pytest.approx(wanted, abs=2.0**-23 * 40 * math.pi)


def test_tangent_is_relatively_exact_away_from_its_poles() -> None:
    x = np.linspace(-10, 10, 1000)[None].astype(F32)
    wanted = np.tan(x.astype(np.float64))
    keep = np.abs(wanted) < 20
    assert apply("nl.tan(t)", x)[keep] == pytest.approx(wanted[keep], rel=2e-5, abs=1e-6)


def test_sine_as_an_operator_is_one_instruction() -> None:
    text = (
        "t = nl.load(x)\nout = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "nisa.activation(dst=t, op=nl.sin, data=t)\nnl.store(out, t)\nreturn out"
    )
    program = traced(body(text), [ArgumentSpec("x", (1, 4), DType.FLOAT32)])
    assert [s.op for s in program.signatures].count("activation") == 1
    assert len(list(program.all_instructions())) == 3


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "floor", "ceil", "trunc"])
@pytest.mark.parametrize("target", TARGETS)
def test_functions_take_psum_tiles_on_every_generation(name: str, target: Target) -> None:
    x = np.array([[0.25, 1.25]], F32)
    result = run(
        "t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.psum)\n"
        "nisa.tensor_copy(dst=t, src=nl.load(x))\n"
        "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        f"nl.store(out, nl.{name}(t))\nreturn out",
        target,
        x=x,
    )
    assert result.outputs[0] == pytest.approx(getattr(np, name)(x), abs=1e-6)


@pytest.mark.parametrize("dtype", ["nl.float32", "nl.bfloat16"])
@pytest.mark.parametrize("shape", ["(128, 300)", "(64, 4, 9, 5)"])
@pytest.mark.parametrize("target", TARGETS)
def test_rand_is_uniform_from_0_to_1(dtype: str, shape: str, target: Target) -> None:
    result = run(
        f"out = nl.ndarray({shape}, dtype={dtype}, buffer=nl.shared_hbm)\n"
        f"nl.store(out, nl.rand({shape}, dtype={dtype}))\nreturn out",
        target,
        x=np.zeros((1, 1), F32),
    )
    got = result.outputs[0].astype(np.float64)
    assert result.findings == ()
    assert got.min() >= 0
    assert got.max() <= (1 if "bf" in dtype else 1 - 2**-24)
    assert got.mean() == pytest.approx(0.5, abs=0.02)
    assert got.std() == pytest.approx(1 / math.sqrt(12), abs=0.02)


@pytest.mark.parametrize("target", TARGETS)
def test_equal_seeds_give_equal_rand(target: Target) -> None:
    result = run(
        "seed = nl.full((1, 1), 42, dtype=nl.int32, buffer=nl.sbuf)\n"
        "out = nl.ndarray((3, 8, 16), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "for i in range(3):\n"
        "    if i < 2:\n"
        "        nl.random_seed(seed)\n"
        "    nl.store(out[i], nl.rand((8, 16), dtype=nl.float32))\n"
        "return out",
        target,
        x=np.zeros((1, 1), F32),
    )
    first, same, other = result.outputs[0]
    assert first.tolist() == same.tolist()
    assert first.tolist() != other.tolist()


def test_rand_fills_psum_and_refuses_hbm() -> None:
    text = (
        "out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "t = nl.rand((4, 8), dtype=nl.float32, buffer={})\nnl.store(out, nl.copy(t))\nreturn out"
    )
    arguments = [ArgumentSpec("x", (4, 8), DType.FLOAT32)]
    traced(body(text.format("nl.psum")), arguments)
    assert refused(body(text.format("nl.hbm")), arguments).code == "NK114"


@pytest.mark.parametrize("target", TARGETS)
def test_dropout_zeroes_that_share(target: Target) -> None:
    x = np.ones((128, 200), F32)
    got = apply("nl.dropout(t, 0.3, dtype=nl.bfloat16)", x, "nl.bfloat16", target)
    assert set(np.unique(got.astype(F32))) == {0.0, 1.0}
    assert float((got == 0).mean()) == pytest.approx(0.3, abs=0.02)


def test_gather_flattened_is_a_take_along_the_free_axes() -> None:
    x = np.arange(24, dtype=F32).reshape(2, 3, 4)
    index = rng_for(0, "flat").integers(0, 12, (2, 5)).astype(np.uint32)
    result = run(
        "out = nl.ndarray((2, 5), dtype=nl.bfloat16, buffer=nl.shared_hbm)\n"
        "nl.store(out, nl.gather_flattened(nl.load(x), nl.load(i), dtype=nl.bfloat16))\n"
        "return out",
        x=x,
        i=index,
    )
    wanted = np.take_along_axis(x.reshape(2, -1), index.astype(int), axis=1)
    assert result.outputs[0].astype(F32).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("nl.gather_flattened(t, t)", "NK302"),
        ("nl.gather_flattened(t, 3)", "NK308"),
        ("nl.random_seed(t)", "NK304"),
        ("nl.floor(3.5)", "NK308"),
        ("nl.cos(3.5)", "NK308"),
        ("nl.dropout(3.5, 0.5)", "NK308"),
        ("nl.rand((256, 4), dtype=nl.float32)", "NK201"),
    ],
)
def test_wrong_arguments_are_refused(call: str, code: str) -> None:
    arguments = [ArgumentSpec("x", (4, 8), DType.FLOAT32)]
    assert refused(body(f"t = nl.load(x)\n{call}"), arguments).code == code
