"""Each kind of advice where it is due, and none where it is not."""

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.advice import LINES_MAX, advise
from nki_agent.cost.bound import Work, bound_ns
from nki_agent.cost.timeline import schedule
from nki_agent.isa.dtype import DType
from tests.cost.kernels import COPY, MATMUL, Shapes, trace

TRN2 = load_chip(Target.TRN2)
LOOP = """(x):
    out = hbm(x.shape, x.dtype)
    n, f = x.shape
    for r in range(0, n, 128):
        tile = sbuf((128, f), x.dtype)
        nisa.dma_copy(dst=tile, src=x[r : r + 128, :])
        {body}
        nisa.dma_copy(dst=out[r : r + 128, :], src=tile)
    return out
"""


def advice(
    source: str, shapes: Shapes, *, dtype: DType = DType.FLOAT32, work: Work | None = None
) -> tuple[str, ...]:
    program = trace(source, shapes, dtype=dtype)
    bound = None if work is None else bound_ns(work, TRN2)
    lines = advise(schedule(program, TRN2), program, bound)
    assert len(lines) <= LINES_MAX
    return lines


def test_short_descriptors_are_named_with_their_line() -> None:
    lines = advice(COPY.format(columns=32), {"x": (512, 1024)})
    assert any("of 128-byte descriptors" in line and "kernel.py:" in line for line in lines)


def test_transfers_under_4_kib_are_told_what_is_enough() -> None:
    lines = advice(COPY.format(columns=256), {"x": (1024, 4096)})
    assert any("move 4096 bytes or more of each partition" in line for line in lines)


def test_good_streaming_needs_no_advice() -> None:
    assert advice(COPY.format(columns=4096), {"x": (2048, 4096)}) == ()


RELOAD = """(x, w):
    out = hbm(x.shape)
    n, f = x.shape
    for r in range(0, n, 128):
        tile, weights = sbuf((128, f)), sbuf((128, f))
        nisa.dma_copy(dst=tile, src=x[r : r + 128, :])
        nisa.dma_copy(dst=weights, src=w)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weights, op=nl.add)
        nisa.dma_copy(dst=out[r : r + 128, :], src=tile)
    return out
"""


def test_a_tensor_that_is_read_again_is_named() -> None:
    shape = (2048, 2048)
    work = Work(hbm_bytes=(2 * shape[0] + 128) * shape[1] * 4)
    lines = advice(RELOAD, {"x": shape, "w": (128, 2048)}, work=work)
    assert any("`w` is read 16.0 times" in line and "x the minimal bytes" in line for line in lines)


def test_a_scratch_tensor_in_hbm_is_named() -> None:
    body = """
        scratch = nl.ndarray((128, f), dtype=nl.float32, buffer=nl.private_hbm)
        nisa.dma_copy(dst=scratch, src=tile)
        nisa.dma_copy(dst=tile, src=scratch)
"""
    lines = advice(LOOP.format(body=body), {"x": (128, 4096)})
    assert any("go through HBM and back" in line for line in lines)


def test_narrow_transfers_are_told_how_many_engines_they_use() -> None:
    source = """(x):
    out = hbm(x.shape)
    n, f = x.shape
    for r in range(0, n, 8):
        tile = sbuf((8, f))
        nisa.dma_copy(dst=tile, src=x[r : r + 8, :])
        nisa.dma_copy(dst=out[r : r + 8, :], src=tile)
    return out
"""
    lines = advice(source, {"x": (128, 4096)})
    assert any("use 1 of 16 DMA engines" in line for line in lines)


def test_small_instructions_are_told_their_overhead() -> None:
    body = """
        for c in range(0, f, 16):
            nisa.activation(dst=tile[:, c : c + 16], op=nl.exp, data=tile[:, c : c + 16])
"""
    lines = advice(LOOP.format(body=body), {"x": (256, 2048)})
    assert any("of 16 elements a partition" in line and "scalar engine" in line for line in lines)


def test_float32_matmuls_are_told_about_passes() -> None:
    lines = advice(MATMUL, {"a": (2048, 2048), "b": (2048, 1024)})
    assert any("in float32 take several passes" in line for line in lines)
    assert not any("of the array" in line for line in lines)


SMALL_MATMUL = """(a, b):
    out = hbm((a.shape[1], b.shape[1]))
    left, right = sbuf(a.shape, a.dtype), sbuf(b.shape, b.dtype)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    total = psum(out.shape)
    for _ in range(2000):
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
    result = sbuf(out.shape)
    nisa.activation(dst=result, op=nl.copy, data=total)
    nisa.dma_copy(dst=out, src=result)
    return out
"""


def test_small_matmuls_are_told_what_they_leave_unused() -> None:
    shapes = {"a": (32, 128), "b": (32, 16)}
    lines = advice(SMALL_MATMUL, shapes, dtype=DType.BFLOAT16)
    assert any("use 25 % of the array (stationary [32, 128])" in line for line in lines)
    assert any("move only 16 columns" in line for line in lines)


def test_a_busy_vector_engine_is_told_about_an_idle_scalar_engine() -> None:
    body = """
        for _ in range(8):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
"""
    lines = advice(LOOP.format(body=body), {"x": (512, 2048)})
    assert any("nisa.activation(..., scale=, bias=)" in line for line in lines)


def test_a_single_tile_is_told_to_overlap() -> None:
    body = "nisa.activation(dst=tile, op=nl.exp, data=tile)"
    lines = advice(LOOP.format(body=body), {"x": (128, 8192)})
    assert any("use several tiles" in line for line in lines)


BROADCAST = """(w):
    out = hbm((128, 4096))
    tile = sbuf((128, 4096))
    nisa.dma_copy(dst=tile, src=w.ap([[0, 128], [1, 4096]]))
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def test_broadcast_load_is_not_told_to_stay_in_sbuf() -> None:
    lines = advice(BROADCAST, {"w": (4096,)})
    assert any("one broadcast reads `w` 128 times" in line and "on chip" in line for line in lines)
