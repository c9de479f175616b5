"""`nki.collectives`: what is recorded, and what is refused."""

from __future__ import annotations

import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.program.validate import check_program
from tests.kernels import HEAD, f32, refused, traced

CHIP = load_chip(Target.TRN2)
FRAME = (
    HEAD
    + """
import nki.collectives as ncc

@nki.jit
def kernel(x):
    out = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    wide = nl.ndarray((256, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    part = nl.ndarray((16, 32), dtype=nl.float32, buffer=nl.shared_hbm)
    s = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    s2 = nl.ndarray((64, 32), dtype=nl.float32, buffer=nl.sbuf)
    group = ncc.ReplicaGroup([[0, 1, 2, 3]])
    meta = nl.ndarray((3, 4), dtype=nl.uint32, buffer=nl.shared_hbm)
    {call}
    return out
"""
)

CALLS = [
    "ncc.all_reduce([x], [out], group, nl.add)",
    "ncc.all_reduce([x, x], [out, out], group, nl.maximum)",
    "ncc.all_reduce([s], [s2], group, nl.minimum)",
    "ncc.all_gather([x], [wide], group, 0)",
    "ncc.reduce_scatter([x], [part], group, 0, nl.add)",
    "ncc.all_to_all([x], [out], group, 0)",
    "ncc.all_gather_v([x], [wide], group, meta)",
    "ncc.all_to_all_v([x], [out], group, meta, recv_counts_known=True)",
    "ncc.collective_permute([x], [out], [(0, 1), (1, 0)])",
    "ncc.collective_permute_implicit([[x]], [[out]], group)",
    "ncc.collective_permute_implicit_reduce([[x]], [[x]], [[out]], group, nl.add)",
    "nisa.register_store(nl.ndarray((1, 1), dtype=nl.int32), ncc.rank_id())",
    "ncc.collective_permute_implicit_current_processing_rank_id(1, group)",
]


@pytest.mark.parametrize("call", CALLS)
def test_collective_is_recorded_and_valid(call: str) -> None:
    program = traced(FRAME.format(call=call), [f32("x", 64, 32)])
    assert check_program(program, CHIP) == []
    assert call.split("ncc.")[1].split("(", maxsplit=1)[0] in {s.op for s in program.signatures}


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("ncc.all_reduce([x], [out], [[0, 1]], nl.add)", "NK308", "ReplicaGroup"),
        ("ncc.all_reduce([x], [out], group, nl.multiply)", "NK307", "nl.add"),
        ("ncc.all_reduce([x], [wide], group, nl.add)", "NK310", "elements"),
        ("ncc.all_reduce(x, out, group, nl.add)", "NK308", "list of tensors"),
        ("ncc.all_reduce([x], [s], group, nl.add)", "NK301", "one of them"),
        ("ncc.all_reduce([s, s], [s2, s2], group, nl.add)", "NK308", "SBUF"),
        ("ncc.all_reduce([x, x], [out], group, nl.add)", "NK308", "equal"),
        ("ncc.all_gather([x], [out], group, 0)", "NK310", "8192"),
        ("ncc.all_gather([x], [wide], group, 1)", "NK308", "collective_dim"),
        ("ncc.reduce_scatter([x], [out], group, 0, nl.add)", "NK310", "4 ranks"),
        ("ncc.all_to_all([s], [s2], group, 0)", "NK301", "hbm"),
        ("ncc.all_to_all([x[:3, :1]], [out[:3, :1]], group, 0)", "NK308", "multiple of the 4"),
        ("ncc.all_reduce([s], [s2.reshape((64, 2, 16))], group, nl.add)", "NK304", "[64, 32]"),
        ("ncc.all_gather([s[:16, :]], [s2], group, 1)", "NK304", "[16, 128]"),
        ("ncc.reduce_scatter([s], [s2[:, :8]], group, 0, nl.add)", "NK304", "[16, 32]"),
        ("ncc.all_gather_v([x], [out[:3, :1]], group, meta)", "NK308", "multiple of the 4"),
        ("ncc.all_gather_v([x], [meta], group, meta)", "NK302", "do not cast"),
        ("ncc.collective_permute([x, x], [out, out], [(0, 1)])", "NK308", "one tensor"),
        ("ncc.all_gather_v([x], [wide], group, meta, has_rdispls=True)", "NK304", "[4, 4]"),
        ("ncc.collective_permute([x], [out], [(0, 1), (0, 2)])", "NK308", "each rank once"),
        ("ncc.collective_permute_implicit([x], [out], group)", "NK308", "channel"),
        ("ncc.collective_permute_implicit([[x]], [[out]], group, [1])", "NK308", "0, 1"),
        ("ncc.all_reduce([x], [out], ncc.ReplicaGroup([[0, 1], [1]]), nl.add)", "NK308", "ranks"),
        ("ncc.all_reduce([x], [out], group, nl.add, priority=1)", "NK311", "v4"),
    ],
)
def test_collective_that_breaks_a_rule_says_why(call: str, code: str, words: str) -> None:
    finding = refused(FRAME.format(call=call), [f32("x", 64, 32)])
    assert finding.code == code, str(finding)
    assert words in str(finding)
