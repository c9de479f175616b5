"""What is known about registers and loops before a Program runs."""

from __future__ import annotations

import pytest

from nki_agent.program.line import make_line
from nki_agent.program.records import Loop, Program, walk
from nki_agent.program.registers import find_constants, loop_values
from tests.kernels import body, f32, traced

OUT = "out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)\n"


def program_of(text: str) -> Program:
    return traced(body(OUT + text.strip("\n") + "\nreturn out"), [f32("x", 64, 32)])


def values_of(text: str) -> range | None:
    program = program_of(text + "\nnl.fori_loop(low, high, lambda i: None, step=3)")
    loop = program.bodies[0][-1]
    assert isinstance(loop, Loop)
    return loop_values(loop, find_constants(program))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("low, high = 2, 9", range(2, 9, 3)),
        ("low, high = nisa.register_alloc(1), nisa.register_alloc(9)", range(1, 9, 3)),
        ("low, high = 0, nisa.register_alloc(9)\nnisa.register_move(high, 6)", None),
        ("low, high = 0, nisa.register_alloc()", None),
        ("low, high = 0, nisa.register_alloc()\nnisa.register_move(high, low_register)", None),
    ],
)
def test_bounds_are_known_where_one_move_of_a_number_sets_them(
    text: str, values: range | None
) -> None:
    text = text.replace("low_register", "nisa.register_alloc(2)")
    assert values_of(text) == values


def test_register_that_a_loop_moves_has_no_constant() -> None:
    text = """
low, high = 0, nisa.register_alloc()
nl.fori_loop(0, 4, lambda i: nisa.register_move(high, 6) and None)"""
    text = text.replace("lambda i: nisa.register_move(high, 6) and None", "step")
    text = text.replace("nl.fori", "def step(i):\n    nisa.register_move(high, 6)\nnl.fori", 1)
    assert values_of(text) is None


def test_loops_are_intervals_of_the_order() -> None:
    program = program_of("""
t = nl.zeros((64, 32), dtype=nl.float32)
def inner(j):
    nisa.dma_copy(dst=out, src=t)
def outer(i):
    nisa.dma_copy(dst=t, src=x)
    nl.fori_loop(0, i, inner)
    nisa.dma_copy(dst=t, src=x)
nl.fori_loop(0, 4, outer)
def never(i):
    nisa.dma_copy(dst=t, src=x)
nl.fori_loop(4, 4, never)
nisa.dma_copy(dst=out, src=t)
""")
    line = make_line(program)
    assert len(line.body) == 5
    assert [(s.first, s.last, s.path, s.is_certain) for s in line.spans] == [
        (1, 3, (0,), True),
        (2, 2, (0, 1), False),
    ]
    assert line.span_of is not None
    assert line.span_of.tolist() == [-1, 0, 1, 0, -1]
    assert len(list(walk(program.bodies[0]))) == 6
