"""What collectives read and write, as NK207 and NK208 see it."""

from __future__ import annotations

import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.memory.placement import place_program
from tests.kernels import HEAD, f32, traced

KERNEL = (
    HEAD
    + """
import nki.collectives as ncc

@nki.jit
def kernel(x):
    out = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    src = nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.hbm)
    meta = nl.ndarray((1, 3, 2), dtype=nl.uint32)
    counts = nl.ndarray((3, 2), dtype=nl.uint32, buffer=nl.hbm)
    group = ncc.ReplicaGroup([[0, 1]])
    {body}
    return out
"""
)
LOAD = "nisa.dma_copy(src, x)"
ROWS = "nisa.memset(meta[:, 0:2, :], 1)"
KEEP = "kept = nl.ndarray((1, 2), dtype=nl.uint32); nisa.tensor_copy(kept, meta[:, 2, :])"
V = "ncc.all_gather_v([x], [out], group, meta{})"


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        ([LOAD, "ncc.all_gather([src], [out], group, 0)"], []),
        (["ncc.all_gather([src], [out], group, 0)"], ["NK207"]),
        ([LOAD, "ncc.all_gather([src], [out[:8, :]], group, 0)"], []),
        ([LOAD, "ncc.all_reduce([src], [out[:4, :]], group, nl.add)"], ["NK208"]),
        ([ROWS, V.format("")], []),
        ([ROWS, V.format(", recv_counts_known=True")], []),
        (["nisa.memset(meta[:, 0:1, :], 1)", V.format("")], ["NK207"]),
        ([ROWS, V.format(""), KEEP], []),
        ([ROWS, V.format(", recv_counts_known=True"), KEEP], ["NK207"]),
        (["ncc.all_gather_v([x], [out], group, counts)"], ["NK207"]),
    ],
)
def test_sources_are_read_and_destinations_written(lines: list[str], codes: list[str]) -> None:
    program = traced(KERNEL.format(body="\n    ".join(lines)), [f32("x", 4, 8)])
    _, findings = place_program(program, load_chip(Target.TRN2))
    assert [f.code for f in findings] == codes, [str(f) for f in findings]
