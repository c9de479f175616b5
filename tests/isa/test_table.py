"""The table of instructions: its own consistency, engines, cycles."""

from __future__ import annotations

import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.declaration import REQUIRED, WRITTEN_KINDS, Call
from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.isa.enums import Engine
from nki_agent.isa.ops import ACTIVATIONS, ALU_OPS
from nki_agent.isa.rules import allowed_starts, engine_for
from nki_agent.isa.table import TABLE
from nki_agent.program.records import Program
from tests.kernels import body, f32, traced

TILES = """\
s = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
h = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
g = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
i = nl.ndarray((128, 512), dtype=nl.int32, buffer=nl.sbuf)
c = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
"""
END = "\nreturn nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)"


def call_of(text: str, target: Target = Target.TRN2) -> Call:
    """The checked call of one instruction."""
    program: Program = traced(body(TILES + text + END), [f32("x", 4, 4)], target=target)
    signature = program.signatures[0]
    return Call(TABLE[signature.op], signature, load_chip(target))


@pytest.mark.parametrize(
    ("text", "target", "engine", "cycles"),
    [
        ("nisa.tensor_copy(dst=s, src=p)", Target.TRN2, Engine.VECTOR, 512),
        ("nisa.tensor_copy(dst=h, src=g)", Target.TRN2, Engine.VECTOR, 128),
        ("nisa.tensor_copy(dst=h, src=g)", Target.TRN1, Engine.VECTOR, 512),
        ("nisa.tensor_copy(dst=h[:, 0:256], src=g[:, 0:512:2])", Target.TRN2, Engine.VECTOR, 128),
        ("nisa.tensor_copy(dst=h[:, 0:8], src=g[:, 0:8])", Target.TRN2, Engine.VECTOR, 64),
        ("nisa.tensor_tensor(s, s, s, nl.add)", Target.TRN2, Engine.VECTOR, 1024),
        ("nisa.tensor_tensor(s, p, s, nl.add)", Target.TRN2, Engine.VECTOR, 512),
        ("nisa.tensor_tensor(h, h, g, nl.add)", Target.TRN2, Engine.VECTOR, 256),
        ("nisa.tensor_tensor(h, h, g, nl.add)", Target.TRN1, Engine.VECTOR, 512),
        ("nisa.tensor_tensor(i, i, i, nl.add)", Target.TRN2, Engine.GPSIMD, 1024),
        ("nisa.tensor_tensor(s, s, s, nl.power)", Target.TRN2, Engine.GPSIMD, 1024),
        ("nisa.tensor_scalar(h, g, nl.add, 1.0)", Target.TRN2, Engine.VECTOR, 128),
        ("nisa.tensor_scalar(s, s, nl.rsqrt, 0)", Target.TRN2, Engine.GPSIMD, 512),
        ("nisa.activation(s, nl.exp, s)", Target.TRN2, Engine.SCALAR, 512),
        (
            "nisa.activation_reduce(s, nl.exp, s, nl.add, c)",
            Target.TRN2,
            Engine.SCALAR,
            576,
        ),
        ("nisa.activation(h, nl.exp, g)", Target.TRN3, Engine.SCALAR, 256),
        ("nisa.tensor_reduce(c, nl.add, s, 1)", Target.TRN2, Engine.VECTOR, 512),
        ("nisa.reciprocal(s, s)", Target.TRN2, Engine.VECTOR, 4096),
        ("nisa.nc_matmul(p, h[:, 0:128], g)", Target.TRN2, Engine.TENSOR, 512),
        ("nisa.nc_matmul(p, s[:, 0:128], s)", Target.TRN2, Engine.TENSOR, 2048),
        ("nisa.nc_matmul(p[:, 0:8], h[:, 0:128], g[:, 0:8])", Target.TRN2, Engine.TENSOR, 64),
        ("nisa.nc_transpose(p[:, 0:128], s[:, 0:128])", Target.TRN2, Engine.TENSOR, 256),
        ("nisa.nc_transpose(p[:, 0:128], s[:, 0:128])", Target.TRN1, Engine.TENSOR, 512),
        ("nisa.nc_transpose(s[0:32, 0:32], s[0:32, 0:32])", Target.TRN2, Engine.VECTOR, 64),
        ("nisa.memset(dst=s, value=0)", Target.TRN2, Engine.VECTOR, 512),
        ("nisa.iota(i, [[1, 512]])", Target.TRN2, Engine.GPSIMD, 512),
    ],
)
def test_engine_and_cycles_follow_the_documented_formula(
    text: str, target: Target, engine: Engine, cycles: float
) -> None:
    call = call_of(text, target)
    chosen = engine_for(call)
    assert chosen is engine
    assert call.declaration.cycles is not None
    assert call.declaration.cycles(call, chosen) == cycles


def test_asked_engine_is_taken() -> None:
    text = "nisa.tensor_copy(dst=s, src=s, engine=nisa.engine.gpsimd)"
    assert engine_for(call_of(text)) is Engine.GPSIMD


def test_dma_has_no_cycles() -> None:
    call = call_of("nisa.dma_copy(dst=s, src=s)")
    assert engine_for(call) is Engine.DMA
    assert call.declaration.cycles is None


def test_declarations_are_numbered_and_their_parameters_distinct() -> None:
    for number, (name, declaration) in enumerate(TABLE.items()):
        assert declaration.index == number
        module, _, page_name = declaration.page.rpartition(".")
        assert page_name == name
        assert module in ("nki.isa", "nki.language", "nki.collectives")
        names = [p.name for p in declaration.parameters]
        assert len(names) == len(set(names))
        optional = [p.is_optional for p in declaration.parameters]
        assert optional == sorted(optional), f"{name}: a required parameter follows an optional one"
        writes = any(p.kind in WRITTEN_KINDS for p in declaration.parameters)
        silent = ("set_rng_seed", "rand_set_state", "core_barrier", "device_print")
        assert writes or declaration.register_parameters or name in silent
        assert not names or declaration.parameter(names[0]).default is REQUIRED


@pytest.mark.parametrize(
    ("count", "starts"), [(1, 4), (32, 4), (33, 2), (64, 2), (65, 1), (128, 1), (129, 1)]
)
def test_start_partitions_depend_on_the_count(count: int, starts: int) -> None:
    assert len(allowed_starts(count)) == starts


def test_operators_have_engines_and_functions_have_ranges() -> None:
    assert all(op.engines for op in ALU_OPS.values())
    assert ACTIVATIONS["sin"].high == pytest.approx(3.14159265)
    assert all(f.low < f.high for f in ACTIVATIONS.values())


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ("bfloat16", DType.BFLOAT16),
        (float, None),
        ("float31", None),
        (DType.INT8, DType.INT8),
        (bool, DType.BOOL),
        (object(), None),
    ],
)
def test_dtype_is_found_by_name_or_numpy_type(value: object, dtype: DType | None) -> None:
    assert find_dtype(value) is dtype


def test_item_sizes_are_those_in_memory() -> None:
    assert DType.TFLOAT32.itemsize == 4
    assert DType.FLOAT8_E4M3.itemsize == 1
    assert DType.BOOL.is_integer
    assert DType.FLOAT8_E8M0FNU.is_float
