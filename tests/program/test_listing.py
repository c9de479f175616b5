"""The readable listing."""

from __future__ import annotations

from nki_agent.program.listing import list_program, list_rows
from tests.kernels import SOFTMAX, body, f32, traced


def test_listing_names_line_operands_and_attributes() -> None:
    lines = list(list_program(traced(SOFTMAX, [f32("x", 128, 96)])))
    assert lines[0] == "kernel for trn2: 6 instructions, 6 distinct"
    assert lines[1] == "  argument x [128, 96] float32 in hbm (read)"
    activation = next(line for line in lines if "activation" in line)
    assert "kernel.py:18  activation dst=t2[128, 96]" in activation
    assert "op=exp" in activation
    assert "scale=1.0" in activation


def test_limit_says_how_many_follow() -> None:
    lines = list(list_program(traced(SOFTMAX, [f32("x", 256, 96)]), limit=5))
    assert lines[-1] == "... 7 more"


LOOP = """
out = nl.ndarray((256, 96), dtype=x.dtype, buffer=nl.shared_hbm)
def step(i):
    t = nl.ndarray((128, 96), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x.ap([[96, 128], [1, 96]], scalar_offset=i))
    with nl.no_reorder():
        nisa.activation(dst=t, op=nl.exp, data=t)
    nisa.dma_copy(dst=out[0:128, :], src=t)
nl.fori_loop(0, 256, step, step=128)
return out
"""


def test_listing_shows_loops_scopes_and_run_time_offsets() -> None:
    program = traced(body(LOOP), [f32("x", 256, 96)])
    loop, load, scope, activation, store = list(list_program(program))[3:]
    assert loop.endswith("  fori loop0 from 0 to 256 step 128:")
    assert "    dma_copy dst=t2[128, 96] src=x[128, 96] at loop0 x 384 bytes" in load
    assert scope.endswith("    no_reorder:")
    assert "      activation" in activation
    assert store.startswith("     2")
    assert [row.depth for row in list_rows(program)] == [0, 1, 1, 2, 1]


def test_listing_tells_the_cores_apart() -> None:
    program = traced(
        "grid = (2,)\n"
        + body(
            "out = nl.ndarray((2, 96), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "core = nl.program_id(0)\nnl.store(out[core:core + 1], nl.load(x[core:core + 1]))\n"
            "return out"
        ),
        [f32("x", 2, 96)],
    )
    lines = list(list_program(program))
    assert lines[0] == "kernel for trn2: 4 instructions, 2 distinct"
    assert [i for i, line in enumerate(lines) if line.startswith("core ")] == [3, 6]
