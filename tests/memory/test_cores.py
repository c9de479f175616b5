"""The memory pass on two cores: memories of their own, HBM in common."""

import msgspec

from nki_agent.chip.spec import Target, load_chip
from nki_agent.memory.placement import place_program
from nki_agent.program.line import make_line
from nki_agent.program.records import Instruction
from tests.memory.traced import place_body, trace_body

HALVES = """
core = nl.program_id(0)
o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
t = nl.ndarray((64, 8), dtype=nl.float32, name="t")
nisa.dma_copy(dst=t, src=a[core * 64:core * 64 + 64])
nisa.dma_copy(dst=o[core * 64:core * 64 + 64], src=t)
return o
"""


def test_result_that_both_cores_write_together_is_whole() -> None:
    assert place_body(HALVES, (128, 8), cores=2).codes == []
    one = HALVES.replace("a[core * 64:core * 64 + 64]", "a[0:64]")
    one = one.replace("o[core * 64:core * 64 + 64]", "o[0:64]")
    assert place_body(one, (128, 8), cores=2).codes == ["NK208"]


def test_each_core_has_all_of_its_own_sbuf() -> None:
    big = HALVES.replace("(64, 8), dtype=nl.float32, name", "(64, 40000), dtype=nl.float32, name")
    big = big.replace("dst=t,", "dst=t[:, 0:8],").replace("src=t)", "src=t[:, 0:8])")
    placed = place_body(big, (128, 8), cores=2)
    assert placed.codes == []
    assert placed.placement.peak_sbuf_bytes == 160000


def test_read_of_what_the_other_core_wrote_before_a_barrier_is_good() -> None:
    text = """
core = nl.program_id(0)
o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
w = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
{first}
nisa.core_barrier(data=w, cores=(0, 1))
nisa.dma_copy(dst=o[core * 64:core * 64 + 64], src=w[64 - core * 64:128 - core * 64])
return o
"""
    half = "nisa.dma_copy(dst=w[core * 64:core * 64 + 64], src=a[core * 64:core * 64 + 64])"
    assert place_body(text.format(first=half), (128, 8), cores=2).codes == []
    placed = place_body(text.format(first=""), (128, 8), cores=2)
    assert placed.codes == ["NK207"]
    assert "core_barrier" in placed.findings[0].hint


def test_order_alternates_at_barriers_and_keeps_each_core_own() -> None:
    program = trace_body(
        """
        core = nl.program_id(0)
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for i in range(3):
            nisa.dma_copy(dst=o, src=a)
            if core:
                nisa.dma_copy(dst=o, src=a)
            nisa.core_barrier(data=o, cores=(0, 1))
        return o
        """,
        (128, 8),
        cores=2,
    )
    line = make_line(program)
    assert line.core_of is not None
    assert line.core_of.tolist() == [0, 0, 1, 1, 1] * 3
    for core in (0, 1):
        mine = [n for n, c in zip(line.body, line.core_of.tolist(), strict=True) if c == core]
        assert mine == list(program.instructions(core))


def test_core_that_uses_the_sbuf_of_the_other_is_forged() -> None:
    program = trace_body(HALVES, (128, 8), cores=2)
    first, second = program.bodies
    assert isinstance(first[0], Instruction)
    assert isinstance(second[1], Instruction)
    stolen = msgspec.structs.replace(second[1], tensors=(second[1].tensors[0], first[0].tensors[0]))
    forged = msgspec.structs.replace(program, bodies=(first, (second[0], stolen)))
    codes = [f.code for f in place_program(forged, load_chip(Target.TRN2))[1]]
    assert codes[0] == "NK902"


def test_addresses_of_two_cores_do_not_clash() -> None:
    text = HALVES.replace('name="t"', "address=(0, 0)")
    assert place_body(text, (128, 8), cores=2).codes == []
