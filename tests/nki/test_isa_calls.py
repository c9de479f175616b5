"""Calls of `nki.isa`: what is recorded, and the code and words of what is refused."""

from __future__ import annotations

import pytest

from nki_agent.chip.spec import Target
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.modules import MODULES, SIGNATURES
from tests.kernels import SOFTMAX, body, f32, refused, traced

TILES = """\
s = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
s2 = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
h = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
i = nl.ndarray((128, 64), dtype=nl.int32, buffer=nl.sbuf)
c = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
p = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
p2 = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
w = nl.ndarray((128, 600), dtype=nl.float32, buffer=nl.sbuf)
"""
CALL_LINE = 17


REFUSED = [
    ("nisa.tensor_tensor(dst=s, data1=x, data2=s, op=nl.add)", "NK301", "hbm"),
    ("nisa.tensor_tensor(dst=s, data1=p, data2=p2, op=nl.add)", "NK309", "PSUM"),
    ("nisa.tensor_tensor(dst=s, data1=s, data2=s[:, 0:32], op=nl.add)", "NK304", "[128, 32]"),
    ("nisa.tensor_tensor(dst=s[0:64], data1=s, data2=s, op=nl.add)", "NK303", "[64, 64]"),
    ("nisa.tensor_tensor(dst=s, data1=s, data2=s, op=nl.exp)", "NK307", "nl.exp"),
    ("nisa.tensor_tensor(dst=s, data1=s, data2=s, op=np.add)", "NK307", "add"),
    ("nisa.tensor_tensor(dst=s, data1=s, data2=s, op='add')", "NK307", "add"),
    ("nisa.tensor_tensor(dst=s, data1=s, data2=s, op=nl.bitwise_and)", "NK302", "integer"),
    ("nisa.tensor_tensor(dst=s, data1=s, data2=s)", "NK109", "op"),
    ("nisa.tensor_tensor(dst=s, data1=s, data2=2.0, op=nl.add)", "NK308", "tensor"),
    ("nisa.tensor_scalar(dst=s, data=s, op0=nl.add, operand0=s2)", "NK312", "[128, 1]"),
    ("nisa.tensor_scalar(dst=s, data=s, op0=nl.add, operand0=h[:, 0:1])", "NK302", "float32"),
    (
        "nisa.tensor_scalar(i, i, nl.add, 1, op1=nl.bitwise_and, operand1=1)",
        "NK307",
        "mix",
    ),
    ("nisa.activation(dst=s, op=nl.exp, data=s, bias=s2)", "NK312", "bias"),
    ("nisa.activation(dst=s, op=nl.power, data=s)", "NK307", "nl.power"),
    ("nisa.activation(dst=s, op=nl.exp, data=s, reduce_cmd='reduce')", "NK308", "reduce"),
    ("nisa.activation(dst=s, op=nl.exp, data=s, reduce_op=nl.maximum)", "NK307", "nl.add"),
    ("nisa.tensor_reduce(dst=c, op=nl.add, data=s, axis=0)", "NK308", "axis"),
    (
        "nisa.tensor_reduce(dst=c, op=nl.add, data=s.reshape((128, 8, 8)), axis=1)",
        "NK308",
        "last free dimensions",
    ),
    ("nisa.tensor_reduce(dst=s, op=nl.add, data=s2, axis=1)", "NK304", "1"),
    ("nisa.nc_matmul(dst=s, stationary=s, moving=s)", "NK301", "psum"),
    ("nisa.nc_matmul(dst=p, stationary=p, moving=s)", "NK301", "sbuf"),
    ("nisa.nc_matmul(dst=p[0:64], stationary=s, moving=h)", "NK302", "both float32"),
    ("nisa.nc_matmul(dst=p, stationary=s[0:64], moving=s2)", "NK303", "stationary[0]=64"),
    ("nisa.nc_matmul(dst=p[0:64, 0:600], stationary=s, moving=w)", "NK202", "64"),
    ("nisa.nc_matmul(dst=p, stationary=s, moving=s2)", "NK304", "[M, N]"),
    ("nisa.nc_transpose(dst=s, data=s2)", "NK304", "[64, 128]"),
    ("nisa.nc_transpose(dst=s[0:64], data=s2[0:64])", "NK301", "psum"),
    ("nisa.dma_copy(dst=p, src=x[0:128, 0:64])", "NK301", "psum"),
    ("nisa.dma_copy(dst=s, src=x)", "NK310", "element counts"),
    (
        "nisa.dma_copy(dst=h, src=x[0:128, 0:64], dge_mode=nisa.dge_mode.hwdge)",
        "NK302",
        "bfloat16",
    ),
    ("nisa.dma_copy(dst=s, src=x[0:128, 0:64], priority=1)", "NK311", "v4"),
    ("nisa.dma_copy(dst=s, src=x[0:128, 0:64], engine=nisa.engine.sync)", "NK306", "sync"),
    (
        "nisa.dma_copy(dst=s, src=s, dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.gpsimd)",
        "NK306",
        "scalar",
    ),
    ("nisa.dma_transpose(h[0:64], h[0:64, 0:64], dge_mode=nisa.dge_mode.swdge)", "NK308", "swdge"),
    ("nisa.dma_transpose(h[0:64], h[0:64], dge_mode=nisa.dge_mode.hwdge)", "NK308", "size 1, 2"),
    ("nisa.dma_transpose(dst=i, src=i.view(nl.int8))", "NK302", "2-byte"),
    ("nisa.memset(dst=i, value=2.5)", "NK302", "int"),
    ("nisa.tensor_tensor(dst=s, data1=s, data2=s, op=nl.average)", "NK307", "average"),
    ("nisa.tensor_partition_reduce(s[0:1], nl.bitwise_or, s2)", "NK302", "integer"),
    (
        "v = h.reshape((128, 2, 2, 4, 4))\nnisa.dma_transpose(dst=v, src=v)",
        "NK308",
        "5 dimensions",
    ),
    ("nisa.memset(dst=s, value=x)", "NK308", "number"),
    ("nisa.tensor_copy(dst=s, src=p, engine=nisa.engine.gpsimd)", "NK306", "vector"),
    ("nisa.tensor_copy(dst=s, src=p, engine=3)", "NK308", "nisa.engine"),
    ("nisa.tensor_copy(dst=s, src=p, mask=1)", "NK109", "mask"),
    ("nisa.tensor_copy(dst=s[16:48], src=p[0:32])", "NK211", "16"),
    ("nisa.tensor_tensor(dst=s, data1=p, data2=s, op=nl.power)", "NK306", "gpsimd"),
    ("nisa.sendrecv(s, s, 0, 2, 0)", "NK308", "recv_from_rank"),
    ("nl.gather_flattened(s, s, axis=1)", "NK114", "axis=1"),
    ("nisa.tensor_plus(s, s, s)", "NK104", "tensor_"),
    ("nl.arange(128)", "NK104", "arange"),
    ("nl.divide(s, s)", "NK313", "reciprocal"),
    (
        "nisa.tensor_scalar(dst=s, data=s, op0=nl.add, operand0=1.0, op1=nl.multiply)",
        "NK308",
        "operand1",
    ),
    (
        "nisa.tensor_scalar(dst=s, data=s, op0=nl.add, operand0=1.0, operand1=2.0)",
        "NK308",
        "both or neither",
    ),
    ("nl.add(s, s2[:, 0:1])", "NK304", "broadcast"),
    ("nl.ndarray((129, 4), dtype=nl.float32)", "NK201", "128"),
    ("nl.ndarray((128,), dtype=nl.float32)", "NK203", "2 dimensions"),
    ("nl.ndarray((0, 4), dtype=nl.float32)", "NK203", "positive"),
    ("nl.ndarray((1,) * 9, dtype=nl.float32, buffer=nl.hbm)", "NK203", "9"),
    ("nl.ndarray((8, 4), dtype='float31')", "NK302", "float31"),
    ("nl.ndarray((8, 4), dtype=nl.float32, buffer='sbuf')", "NK308", "nl.sbuf"),
    ("s[:, 0] = 1.0", "NK106", "tensor_copy"),
]


def refused_source(call: str) -> str:
    """A kernel that makes one call and returns."""
    end = "\nreturn nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)"
    return body(TILES + call + end)


# What the declarations' rules say, rather than the binding of arguments or the views.
REFUSED_BY_RULES = [
    (call, code)
    for call, code, _ in REFUSED
    if code
    in ("NK301", "NK302", "NK303", "NK304", "NK305", "NK306", "NK309", "NK310", "NK311", "NK312")
    and call.startswith("nisa.")
    and "600" not in call
]


@pytest.mark.parametrize(("call", "code", "words"), REFUSED)
def test_call_that_breaks_a_rule_says_what_where_and_what_to_do(
    call: str, code: str, words: str
) -> None:
    finding = refused(body(TILES + call), [f32("x", 256, 64)])
    assert finding.code == code, str(finding)
    assert words in str(finding)
    assert str(finding.where[-1]) == f"kernel.py:{CALL_LINE + call.count(chr(10))}"


@pytest.mark.parametrize(
    ("call", "target", "code"),
    [
        ("nisa.activation(dst=s, op=nl.exp, data=s, bias=1.0)", Target.TRN1, "NK311"),
        ("nisa.tensor_copy(dst=s, src=p, engine=nisa.engine.scalar)", Target.TRN1, "NK306"),
        (
            "nisa.range_select(s, s2, nl.greater_equal, nl.less, c, c)",
            Target.TRN1,
            "NK311",
        ),
        ("nisa.tensor_tensor(dst=s, data1=s, data2=s, op=nl.abs_max)", Target.TRN2, "NK311"),
    ],
)
def test_call_that_an_older_chip_lacks_is_refused(call: str, target: Target, code: str) -> None:
    assert refused(body(TILES + call), [f32("x", 256, 64)], target=target).code == code


def test_wide_moving_operand_is_refused_on_trn2_and_taken_on_trn3() -> None:
    call = (
        "q = nl.ndarray((64, 600), dtype=nl.float32, buffer=nl.psum)\n"
        "nisa.nc_matmul(dst=q, stationary=s, moving=w)\n"
        "out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "return out"
    )
    assert refused(body(TILES + call), [f32("x", 256, 64)]).code == "NK305"
    traced(body(TILES + call), [f32("x", 256, 64)], target=Target.TRN3)


def test_softmax_is_recorded_in_program_order() -> None:
    program = traced(SOFTMAX, [f32("x", 200, 96)])
    ops = [program.signatures[i.signature].op for i in program.instructions()]
    assert (
        ops
        == [
            "dma_copy",
            "tensor_reduce",
            "activation",
            "reciprocal",
            "tensor_scalar",
            "dma_copy",
        ]
        * 2
    )
    lines = [program.stack(i.stack)[-1].line for i in program.instructions()]
    assert lines[:2] == [14, 16]


def test_helper_function_adds_a_frame_to_the_stack() -> None:
    source = body(
        "def load(v):\n"
        "    t = nl.ndarray(v.shape, dtype=v.dtype)\n"
        "    nisa.dma_copy(dst=t, src=v)\n"
        "    return t\n"
        "load(x)\n"
        "out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)\n"
        "return out"
    )
    program = traced(source, [f32("x", 4, 4)])
    first = next(program.instructions())
    assert [(f.line, f.function) for f in program.stack(first.stack)] == [
        (13, "kernel"),
        (11, "load"),
    ]


def test_every_declared_instruction_is_a_function_with_its_parameters() -> None:
    for name, declaration in TABLE.items():
        parameters = list(SIGNATURES[declaration.page].parameters)
        if declaration.register_parameters and declaration.page.startswith("nki.collectives"):
            parameters = ["dst", *parameters]  # the function returns the register
        label = ["name"] if declaration.has_name else []
        assert parameters == [*(p.name for p in declaration.parameters), *label]
        assert name in MODULES[declaration.page.rpartition(".")[0]]
