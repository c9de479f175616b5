"""Registers, run-time loops and offsets, scopes, and two cores."""

from __future__ import annotations

import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.program.records import DynamicKind, Instruction, Loop, LoopKind, Scope
from nki_agent.program.validate import check_program
from tests.kernels import body, f32, refused, traced

CHIP = load_chip(Target.TRN2)
OUT = "out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)\n"
INDEX = ArgumentSpec("index", (128, 1), DType.INT32)
ARGUMENTS = [f32("x", 64, 32), INDEX]


def kernel(text: str, *, end: str = "return out") -> str:
    """A kernel of `x` [64, 32] and `index` [128, 1]."""
    return body(OUT + text.strip("\n") + "\n" + end, params="x, index")


FORI = """
count = nl.ndarray((1, 1), dtype=nl.int32)
nisa.dma_copy(dst=count, src=index[0:1, 0:1])
upper = nisa.register_alloc()
nisa.register_load(upper, count)
tile = nl.ndarray((1, 32), dtype=nl.float32)
def step(i):
    nisa.dma_copy(dst=tile, src=x.ap([[32, 1], [1, 32]], scalar_offset=i))
    nisa.dma_copy(dst=out.ap([[32, 1], [1, 32]], scalar_offset=i), src=tile)
nl.fori_loop(2, upper, step, step=3)
"""


def test_fori_loop_is_traced_once_with_register_bounds() -> None:
    program = traced(kernel(FORI), ARGUMENTS)
    assert check_program(program, CHIP) == []
    loop = program.bodies[0][-1]
    assert isinstance(loop, Loop)
    assert (loop.kind, loop.lower, loop.step) == (LoopKind.FORI, 2, 3)
    assert loop.upper_register is not None
    assert loop.lower_register is None
    first = loop.body[0]
    assert isinstance(first, Instruction)
    assert first.detail is not None
    dynamic = first.detail.dynamic[0]
    assert (dynamic.kind, dynamic.register, dynamic.stride_bytes) == (
        DynamicKind.SCALAR,
        loop.index,
        128,
    )


def test_dynamic_range_makes_the_same_loop() -> None:
    text = FORI.replace("def step(i):", "for i in nl.dynamic_range(2, upper, 3):").replace(
        "nl.fori_loop(2, upper, step, step=3)\n", ""
    )
    first, second = (traced(kernel(t), ARGUMENTS).bodies[0][-1] for t in (FORI, text))
    assert isinstance(first, Loop)
    assert isinstance(second, Loop)
    assert (first.lower, first.step, len(first.body)) == (second.lower, second.step, 2)


def test_while_loop_takes_its_next_condition_from_the_body() -> None:
    text = """
flag = nisa.register_alloc(1)
cell = nl.zeros((1, 1), dtype=nl.int32)
def step(r):
    nisa.register_load(r, cell)
    return r
nl.while_loop(flag, step)
"""
    loop = traced(kernel(text), ARGUMENTS).bodies[0][-1]
    assert isinstance(loop, Loop)
    assert loop.kind is LoopKind.WHILE
    assert loop.next == loop.index
    assert loop.test == 0


def test_vector_offset_reads_indices_as_an_operand() -> None:
    text = """
rows = nl.ndarray((32, 1), dtype=nl.int32)
nisa.dma_copy(dst=rows, src=index[0:32, :])
tile = nl.ndarray((32, 32), dtype=nl.float32)
nisa.dma_copy(dst=tile, src=x.ap([[32, 32], [1, 32]], vector_offset=rows))
nisa.dma_copy(dst=tile, src=x.vector_select(0, rows), oob_mode=nisa.oob_mode.skip)
"""
    program = traced(kernel(text), ARGUMENTS)
    assert check_program(program, CHIP) == []
    gather = list(program.instructions())[1]
    roles = [o.role for o in program.signatures[gather.signature].operands]
    assert roles == ["dst", "src", "src.offset"]
    assert gather.detail is not None
    assert gather.detail.dynamic[0].kind is DynamicKind.VECTOR


def test_no_reorder_is_a_scope() -> None:
    program = traced(kernel("with nl.no_reorder():\n    t = nl.load(x)"), ARGUMENTS)
    assert isinstance(program.bodies[0][0], Scope)
    assert check_program(program, CHIP) == []


def test_depends_on_names_an_earlier_instruction_of_the_body() -> None:
    text = """
a = nl.zeros((1, 1), dtype=nl.float32)
b = nl.ndarray((1, 1), dtype=nl.float32)
first = nisa.memset(dst=a, value=1.0)
nisa.memset(dst=b, value=2.0).depends_on(first)
"""
    program = traced(kernel(text), ARGUMENTS)
    last = list(program.instructions())[-1]
    assert last.detail is not None
    assert last.detail.after == (1,)


TWO_CORES = """
core = nl.program_id(0)
tile = nl.ndarray((32, 32), dtype=nl.float32)
nisa.dma_copy(dst=tile, src=x[core * 32:core * 32 + 32, :])
nisa.dma_copy(dst=out[core * 32:core * 32 + 32, :], src=tile)
nisa.core_barrier(data=out, cores=(0, 1))
"""


def test_two_cores_share_arguments_and_shared_tensors() -> None:
    program = traced(kernel(TWO_CORES) + "\ngrid = (2,)\n", ARGUMENTS)
    assert check_program(program, CHIP) == []
    assert program.launch.cores == 2
    stores = [list(program.instructions(core))[1] for core in (0, 1)]
    assert stores[0].tensors[0] == stores[1].tensors[0]
    assert stores[0].tensors[1] != stores[1].tensors[1]
    assert [s.offsets[0] for s in stores] == [0, 32 * 32 * 4]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("r = nisa.register_alloc(1)\nif r:\n    pass", "NK110", "truth"),
        ("r = nisa.register_alloc(1)\nrange(r)", "NK110", "index"),
        ("r = nisa.register_alloc(1)\nx[r:]", "NK110", "index"),
        ("r = nisa.register_alloc(1)\nx[r, nl.ds(r, 4)]", "NK210", "second run-time"),
        ("r = nisa.register_alloc(1)\nnl.load(x)[nl.ds(r, 4)]", "NK210", "on-chip"),
        ("r = nisa.register_alloc(1)\nnl.ds(0, r)", "NK110", "index"),
        ("r = nisa.register_alloc(1)\nif r == 1:\n    pass", "NK110", "comparison"),
        ("r = nisa.register_alloc(1)\nif 1 != r:\n    pass", "NK110", "comparison"),
        ("r = nisa.register_alloc(1)\nif r == r:\n    pass", "NK110", "comparison"),
        ("r = nisa.register_alloc(1)\nif r < 3:\n    pass", "NK110", "comparison"),
        ("r = nisa.register_alloc(1)\n2 * r", "NK110", "arithmetic"),
        ("r = nisa.register_alloc(1)\nr += 1", "NK110", "arithmetic"),
        ("r = nisa.register_alloc(1)\nr // 2", "NK110", "arithmetic"),
        ("nl.fori_loop(0, 4, lambda i: nisa.register_move(i, 3))", "NK308", "loop's own"),
        ("nl.fori_loop(0, 4, lambda i: 3)", "NK308", "None"),
        ("nl.fori_loop(0, 4, lambda i: None, step=0)", "NK308", "positive"),
        ("nl.fori_loop(0, 4, lambda i: None, step=nisa.register_alloc(1))", "NK308", "step"),
        ("nl.fori_loop(0, 'n', lambda i: None)", "NK308", "register"),
        ("nl.while_loop(3, lambda r: r)", "NK308", "register"),
        ("nl.while_loop(nisa.register_alloc(1), lambda r: None)", "NK308", "next condition"),
        ("with nl.no_reorder():\n    nl.fori_loop(0, 4, lambda i: None)", "NK401", "no_reorder"),
        ("x.select(0, x).select(0, index)", "NK210", "second"),
        ("nl.load(x).select(0, nisa.register_alloc(1))", "NK210", "partition"),
        ("nisa.register_load(3, index)", "NK308", "register"),
        ("nisa.register_load(nisa.register_alloc(), index)", "NK304", "one element"),
        ("nisa.register_move(nisa.register_alloc(), 1.5)", "NK308", "int"),
        (
            "a = nisa.memset(dst=nl.zeros((1, 1), nl.float32), value=0.0)\na.depends_on(3)",
            "NK308",
            "handle",
        ),
        ("nisa.core_barrier(data=out, cores=(0,))", "NK308", "(0, 1)"),
    ],
)
def test_control_that_the_hardware_lacks_is_refused(text: str, code: str, words: str) -> None:
    finding = refused(kernel(text), ARGUMENTS)
    assert finding.code == code, str(finding)
    assert words in str(finding)


def test_tensor_of_a_loop_is_not_used_after_it() -> None:
    text = """
made = []
def step(i):
    made.append(nl.zeros((1, 1), dtype=nl.float32))
nl.fori_loop(0, 4, step)
nisa.memset(dst=made[0], value=1.0)
"""
    program = traced(kernel(text), ARGUMENTS)
    assert [f.code for f in check_program(program, CHIP)] == ["NK216"]


def test_indices_of_another_shape_are_refused() -> None:
    text = """
rows = nl.ndarray((16, 1), dtype=nl.int32)
nisa.dma_copy(dst=rows, src=index[0:16, :])
tile = nl.ndarray((32, 32), dtype=nl.float32)
nisa.dma_copy(dst=tile, src=x.ap([[32, 32], [1, 32]], vector_offset=rows))
"""
    findings = check_program(traced(kernel(text), ARGUMENTS), CHIP)
    assert [f.code for f in findings] == ["NK308"]


def test_cores_that_allocate_different_shared_tensors_are_refused() -> None:
    text = (
        "n = 4 + nl.program_id(0)\nq = nl.ndarray((n, 4), dtype=nl.float32, buffer=nl.shared_hbm)"
    )
    finding = refused(kernel(text) + "\ngrid = (2,)\n", ARGUMENTS)
    assert finding.code == "NK116"


def test_gather_may_name_more_rows_than_the_table_has() -> None:
    text = """
rows = nl.ndarray((128, 1), dtype=nl.int32)
nisa.dma_copy(dst=rows, src=index)
tile = nl.ndarray((128, 32), dtype=nl.float32)
nisa.dma_copy(dst=tile, src=x.ap([[32, 128], [1, 32]], vector_offset=rows))
nisa.dma_copy(dst=tile, src=x.vector_select(0, rows))
"""
    assert check_program(traced(kernel(text), ARGUMENTS), CHIP) == []


def test_offsets_that_move_themselves_are_refused() -> None:
    text = """
rows = nl.ndarray((32, 4), dtype=nl.int32)
moving = rows.select(1, nisa.register_alloc(1))
tile = nl.ndarray((32, 32), dtype=nl.float32)
nisa.dma_copy(dst=tile, src=x.ap([[32, 32], [1, 32]], vector_offset=moving))
"""
    assert refused(kernel(text), ARGUMENTS).code == "NK210"


def test_indirect_axis_is_not_sliced() -> None:
    text = """
rows = nl.ndarray((32, 4), dtype=nl.uint16)
tile = nl.ndarray((32, 32), dtype=nl.float32)
tile.indirect(rows)[:, 2:6]
"""
    assert refused(kernel(text), ARGUMENTS, target=Target.TRN3).code == "NK210"
