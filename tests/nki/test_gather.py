"""Gathers, shuffles and random instructions as kernels call them: what works, what is refused."""

import numpy as np
import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.sim.execute import compile_program
from tests.kernels import body, refused, traced
from tests.sim.build import Array

TRN1, TRN2, TRN3 = Target.TRN1, Target.TRN2, Target.TRN3
X = [ArgumentSpec("x", (128, 64), DType.FLOAT32)]

TILES = """\
s = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
h = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
i = nl.ndarray((128, 64), dtype=nl.int32, buffer=nl.sbuf)
i2 = nl.ndarray((128, 65), dtype=nl.int32, buffer=nl.sbuf)
u = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.sbuf)
w = nl.ndarray((128, 4), dtype=nl.uint16, buffer=nl.sbuf)
p = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
pu = nl.ndarray((128, 64), dtype=nl.uint32, buffer=nl.psum)
r = nl.ndarray((1, 64), dtype=nl.float32, buffer=nl.sbuf)
b = nl.ndarray((1, 2, 64), dtype=nl.float32, buffer=nl.sbuf)
mask = [255] * 32
"""
GOOD: list[tuple[str, tuple[Target, ...]]] = [
    ("nisa.nc_stream_shuffle(dst=s, src=p, shuffle_mask=mask)", (TRN1, TRN2, TRN3)),
    ("nisa.nc_stream_shuffle(s[64:128], s[0:64], [31] * 32)", (TRN1, TRN2, TRN3)),
    ("nisa.local_gather(dst=s, src_buffer=s, index=w)", (TRN1, TRN2, TRN3)),
    (
        "nisa.local_gather(s[:, 0:40], s, w, num_elem_per_idx=4, num_valid_indices=10)",
        (TRN1, TRN2, TRN3),
    ),
    ("nisa.nc_n_gather(dst=h, data=h, indices=u)", (TRN1, TRN2, TRN3)),
    ("nisa.nonzero_with_count(dst=i2, src=s, index_offset=5)", (TRN2, TRN3)),
    ("nisa.sequence_bounds(dst=b, segment_ids=r)", (TRN1, TRN2, TRN3)),
    ("nisa.topk(val_dst=h, idx_dst=u, src=h, n=1024)", (TRN1, TRN2, TRN3)),
    ("nisa.dropout(dst=s, data=p, prob=0.5)", (TRN1, TRN2, TRN3)),
    ("nisa.dropout(dst=h, data=h, prob=h[:, 0:1])", (TRN1, TRN2, TRN3)),
    ("nisa.dropout(dst=i, data=i, prob=s[:, 0:1])", (TRN1, TRN2, TRN3)),
    ("nisa.rng(dst=pu)", (TRN1, TRN2, TRN3)),
    ("nisa.rng(dst=i, engine=nisa.engine.gpsimd)", (TRN2, TRN3)),
    ("nisa.set_rng_seed(src_seeds=i[0:1, 0:1])", (TRN1, TRN2, TRN3)),
    ("nisa.rand_set_state(src_seeds=u[:, 0:6])", (TRN2, TRN3)),
    ("nisa.rand_get_state(dst=u[:, 0:6], engine=nisa.engine.gpsimd)", (TRN2, TRN3)),
    ("nisa.rand_set_state(u[:, 0:24], engine=nisa.engine.vector)", (TRN3,)),
    ("nisa.rand_get_state(pu[:, 0:24], engine=nisa.engine.vector)", (TRN3,)),
    ("nisa.rand2(dst=h, min=-1.0, max=s[:, 0:1])", (TRN3,)),
]


def call_of(line: str) -> str:
    return body(
        f"{TILES}{line}\nout = nl.ndarray((1, 1), nl.float32, buffer=nl.shared_hbm)\nreturn out"
    )


@pytest.mark.parametrize(("line", "targets"), GOOD)
@pytest.mark.parametrize("target", [TRN1, TRN2, TRN3])
def test_call_is_taken_where_the_chip_has_it(
    line: str, targets: tuple[Target, ...], target: Target
) -> None:
    if target in targets:
        traced(call_of(line), X, target=target)
    else:
        assert refused(call_of(line), X, target=target).code in ("NK311", "NK306")


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("nisa.nc_stream_shuffle(dst=s, src=s, shuffle_mask=[0] * 31)", "NK308", "32 entries"),
        ("nisa.nc_stream_shuffle(dst=s, src=s, shuffle_mask=[32] * 32)", "NK308", "0 to 31"),
        ("nisa.nc_stream_shuffle(s[0:32], s[0:16], [16] * 32)", "NK308", "partition 16"),
        ("nisa.nc_stream_shuffle(dst=h, src=s, shuffle_mask=mask)", "NK302", "bfloat16"),
        ("nisa.nc_stream_shuffle(s, s[:, 0:32], mask)", "NK304", "32"),
        ("nisa.nc_stream_shuffle(s[32:96], s[0:64], mask)", "NK211", "0 or 64"),
        ("nisa.nc_stream_shuffle(dst=s, src=x, shuffle_mask=mask)", "NK301", "hbm"),
        ("nisa.local_gather(dst=s, src_buffer=p, index=w)", "NK301", "psum"),
        ("nisa.local_gather(dst=h, src_buffer=s, index=w)", "NK302", "bfloat16"),
        ("nisa.local_gather(dst=s, src_buffer=s, index=u)", "NK302", "uint16"),
        ("nisa.local_gather(s[0:64], s, w)", "NK303", "64"),
        ("nisa.local_gather(s[0:24], s[0:24], w[0:24])", "NK303", "multiple of 16"),
        ("nisa.local_gather(s, s, w, num_elem_per_idx=3)", "NK308", "1, 2, 4, 8, 16, 32"),
        ("nisa.local_gather(s, s, w, num_valid_indices=65)", "NK308", "1 to 64"),
        ("nisa.local_gather(s[:, 0:32], s, w)", "NK304", "64"),
        (
            "nisa.local_gather(s[0:16], s[0:16], nl.ndarray((16, 257), nl.uint16))",
            "NK308",
            "4096",
        ),
        ("nisa.nc_n_gather(dst=s, data=s, indices=i)", "NK302", "uint32"),
        ("nisa.nc_n_gather(dst=h, data=s, indices=u)", "NK302", "bfloat16"),
        ("nisa.nc_n_gather(dst=s, data=s, indices=u[:, 0:3])", "NK304", "3"),
        ("nisa.nc_n_gather(dst=s, data=s[0:64], indices=u)", "NK303", "64"),
        ("nisa.nc_n_gather(dst=p, data=s, indices=u)", "NK301", "psum"),
        ("nisa.nonzero_with_count(dst=i, src=s)", "NK304", "65"),
        ("nisa.nonzero_with_count(dst=i2, src=h)", "NK302", "bfloat16"),
        ("nisa.nonzero_with_count(dst=i2[0:64], src=s)", "NK303", "64"),
        ("nisa.sequence_bounds(dst=b, segment_ids=s)", "NK304", "[1, n]"),
        ("nisa.sequence_bounds(dst=b[:, 0:1], segment_ids=r)", "NK304", "[1, 2, 64]"),
        ("nisa.topk(val_dst=h, idx_dst=u, src=s, n=64)", "NK302", "bfloat16"),
        ("nisa.topk(val_dst=h, idx_dst=i, src=h, n=64)", "NK302", "uint32"),
        ("nisa.topk(val_dst=h, idx_dst=u, src=h, n=7)", "NK308", "8 to 1024"),
        ("nisa.topk(val_dst=h, idx_dst=u, src=h, n=1025)", "NK308", "8 to 1024"),
        ("nisa.topk(val_dst=h, idx_dst=u, src=h, n=63)", "NK308", "1 to 63"),
        ("nisa.topk(h[0:24], u[0:24], h[0:24], n=64)", "NK303", "multiple of 16"),
        ("nisa.dropout(dst=h, data=s, prob=0.5)", "NK302", "bfloat16"),
        ("nisa.dropout(dst=i, data=i, prob=h[:, 0:1])", "NK302", "float32"),
        ("nisa.dropout(dst=s, data=s, prob=s)", "NK312", "[128, 1]"),
        ("nisa.rng(dst=s)", "NK302", "int8"),
        ("nisa.rng(dst=pu, engine=nisa.engine.gpsimd)", "NK306", "vector"),
        ("nisa.set_rng_seed(src_seeds=i)", "NK304", "[1, 1]"),
        ("nisa.set_rng_seed(src_seeds=h[0:1, 0:1])", "NK304", "32-bit"),
        ("nisa.rand_set_state(src_seeds=i[:, 0:6])", "NK302", "uint32"),
        ("nisa.rand_set_state(src_seeds=u)", "NK304", "6"),
        ("nisa.rand_set_state(src_seeds=pu[:, 0:6])", "NK301", "sbuf"),
        ("nisa.rand_get_state(dst=u[:, 0:24])", "NK304", "6"),
        ("nisa.rand_get_state(u[:, 0:24], engine=nisa.engine.vector)", "NK306", "gpsimd"),
        ("nisa.rand2(dst=s, min=0.0, max=1.0)", "NK311", "v4"),
    ],
)
def test_call_past_a_limit_is_refused(line: str, code: str, words: str) -> None:
    finding = refused(call_of(line), X)
    assert finding.code == code, str(finding)
    assert words in str(finding)


def run(text: str, target: Target = TRN2, **arrays: Array) -> tuple[Array, ...]:
    specs = [ArgumentSpec(n, a.shape, DType(a.dtype.name)) for n, a in arrays.items()]
    program = traced(body(text, params=", ".join(arrays)), specs, target=target)
    return compile_program(program, load_chip(target)).run(arrays).outputs


def test_topk_kernel_of_the_documentation_runs() -> None:
    ranks = np.arange(16 * 3).reshape(3, 16).T
    src = ranks.astype(DType.BFLOAT16.numpy_dtype)
    val, idx = run(
        "src = nl.ndarray((16, 3), dtype=nl.bfloat16, buffer=nl.sbuf)\n"
        "nisa.dma_copy(dst=src, src=x)\n"
        "val = nl.ndarray((16, 8), dtype=nl.bfloat16, buffer=nl.sbuf)\n"
        "idx = nl.ndarray((16, 8), dtype=nl.uint32, buffer=nl.sbuf)\n"
        "nisa.topk(val_dst=val, idx_dst=idx, src=src, n=42)\n"
        "a = nl.ndarray((8, 1), dtype=nl.bfloat16, buffer=nl.shared_hbm)\n"
        "b = nl.ndarray((8, 1), dtype=nl.uint32, buffer=nl.shared_hbm)\n"
        "nisa.dma_copy(dst=a, src=val[0:8, 0:1])\n"
        "nisa.dma_copy(dst=b, src=idx[0:8, 0:1])\n"
        "return a, b",
        x=src,
    )
    assert val.astype(int).ravel().tolist() == idx.ravel().tolist() == list(range(34, 42))


def test_random_state_is_saved_and_restored_in_a_kernel() -> None:
    (out,) = run(
        "state = nl.ndarray((128, 6), dtype=nl.uint32, buffer=nl.sbuf)\n"
        "nisa.rand_get_state(dst=state)\n"
        "out = nl.ndarray((2, 128, 9), dtype=nl.uint32, buffer=nl.shared_hbm)\n"
        "for k in range(2):\n"
        "    t = nl.ndarray((128, 9), dtype=nl.uint32, buffer=nl.sbuf)\n"
        "    nisa.rng(dst=t, engine=nisa.engine.gpsimd)\n"
        "    nisa.dma_copy(dst=out[k], src=t)\n"
        "    nisa.rand_set_state(src_seeds=state)\n"
        "return out",
        x=np.zeros((1, 1), np.float32),
    )
    assert out[0].tolist() == out[1].tolist()
