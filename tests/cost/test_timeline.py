"""Laws of the schedule: order, overlap, bounds."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.bound import Work, bound_ns
from nki_agent.cost.critical import LimitKind
from nki_agent.cost.timeline import Timeline, schedule
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine
from tests.cost.kernels import COPY, EXP, MATMUL, run, trace, trn2

ALL_TARGETS = (Target.TRN1, Target.TRN2, Target.TRN3)


@dataclass(frozen=True)
class Reuse:
    reuses: tuple[tuple[int, ...], ...]


def spans(timeline: Timeline, engine: Engine) -> list[tuple[float, float]]:
    return [
        (float(timeline.start_ns[i]), float(timeline.end_ns[i]))
        for i in range(timeline.num_instructions)
        if timeline.engine(i) is engine
    ]


@pytest.mark.parametrize("target", ALL_TARGETS)
def test_large_copy_streams_at_the_effective_dma_rate(target: Target) -> None:
    timeline = run(COPY.format(columns=4096), {"x": (4096, 4096)}, target=target)
    rate = (timeline.dma.read_bytes + timeline.dma.written_bytes) / timeline.latency_ns
    assert 0.8 <= rate / load_chip(target).dma_bytes_per_ns <= 1.0
    assert timeline.limit.kind is LimitKind.DMA


@pytest.mark.parametrize("target", ALL_TARGETS)
def test_copy_inside_hbm_is_not_under_the_bound(target: Target) -> None:
    source = """(x):
    out = hbm(x.shape, x.dtype)
    nisa.dma_copy(dst=out, src=x)
    return out
"""
    timeline = run(source, {"x": (4096, 4096)}, target=target)
    bound = bound_ns(Work(hbm_bytes=2 * 4096 * 4096 * 4), load_chip(target))
    assert 80 <= bound.percent(timeline.latency_ns) <= 100


@pytest.mark.parametrize("target", ALL_TARGETS)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_elementwise_kernel_is_not_under_the_bound(target: Target, dtype: DType) -> None:
    shape = (1024, 2048)
    timeline = run(EXP, {"x": shape}, target=target, dtype=dtype)
    elems = shape[0] * shape[1]
    work = Work(
        hbm_bytes=2 * elems * dtype.itemsize, elementwise_elems=elems, elementwise_dtype=dtype
    )
    assert bound_ns(work, load_chip(target)).percent(timeline.latency_ns) <= 100


@pytest.mark.parametrize("target", ALL_TARGETS)
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_matmul_kernel_is_not_under_the_bound(target: Target, dtype: DType) -> None:
    k, m, n = 1024, 1024, 1024
    timeline = run(MATMUL, {"a": (k, m), "b": (k, n)}, target=target, dtype=dtype)
    work = Work(
        hbm_bytes=(k * m + k * n) * dtype.itemsize + m * n * 4,
        matmul_flops={dtype: 2 * k * m * n},
        elementwise_elems=m * n,
    )
    assert bound_ns(work, load_chip(target)).percent(timeline.latency_ns) <= 100


def test_heavy_matmul_is_bound_by_the_tensor_engine() -> None:
    timeline = run(MATMUL, {"a": (2048, 2048), "b": (2048, 1024)})
    assert timeline.limit.kind is LimitKind.TENSOR
    assert timeline.utilisation(Engine.TENSOR) > 0.9


@pytest.mark.parametrize("source", [EXP, COPY.format(columns=512)])
def test_more_work_never_takes_less_time(source: str) -> None:
    times = [run(source, {"x": (128 * n, 1024)}).latency_ns for n in (1, 2, 4, 8)]
    assert times == sorted(times)


def test_instructions_of_an_engine_start_in_program_order() -> None:
    timeline = run(MATMUL, {"a": (512, 512), "b": (512, 1024)})
    for engine in (Engine.TENSOR, Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD):
        starts = [start for start, _ in spans(timeline, engine)]
        assert starts == sorted(starts)


def test_causes_end_before_what_they_delay() -> None:
    timeline = run(MATMUL, {"a": (512, 512), "b": (512, 1024)})
    delayed = np.flatnonzero(timeline.causes >= 0)
    assert (timeline.causes[delayed] < delayed).all()
    assert (timeline.start_ns[timeline.causes[delayed]] <= timeline.start_ns[delayed]).all()


TWO_ENGINES = """(x):
    out = hbm(x.shape)
    tile = sbuf(x.shape)
    nisa.dma_copy(dst=tile, src=x)
    first, second = sbuf(x.shape), sbuf(x.shape)
    nisa.activation(dst=first, op=nl.exp, data=tile)
    nisa.tensor_scalar(dst=second, data={source}, op0=nl.multiply, operand0=2.0)
    nisa.tensor_tensor(dst=second, data1=first, data2=second, op=nl.add)
    nisa.dma_copy(dst=out, src=second)
    return out
"""


def test_independent_work_on_two_engines_overlaps() -> None:
    timeline = run(TWO_ENGINES.format(source="tile"), {"x": (128, 2048)})
    assert spans(timeline, Engine.VECTOR)[0][0] == spans(timeline, Engine.SCALAR)[0][0]


def test_dependent_work_on_two_engines_does_not_overlap() -> None:
    timeline = run(TWO_ENGINES.format(source="first"), {"x": (128, 2048)})
    assert spans(timeline, Engine.VECTOR)[0][0] >= spans(timeline, Engine.SCALAR)[0][1]


OVERWRITE = """(x):
    out = hbm(x.shape)
    tile, result = sbuf(x.shape), sbuf(x.shape)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=result, op=nl.exp, data=tile)
    nisa.memset(dst={target}, value=0.0)
    nisa.tensor_tensor(dst=result, data1=result, data2={target}, op=nl.add)
    nisa.dma_copy(dst=out, src=result)
    return out
"""


def test_a_write_waits_for_earlier_readers() -> None:
    timeline = run(OVERWRITE.format(target="tile"), {"x": (128, 2048)})
    data_ns = 2048 / trn2().scalar_clock_ghz
    fill, exp = spans(timeline, Engine.VECTOR)[0], spans(timeline, Engine.SCALAR)[0]
    assert fill[0] == pytest.approx(exp[0] + data_ns)


HALVES = """(x):
    out = hbm(x.shape)
    tile = sbuf(x.shape)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile[:, 0:1024], op=nl.exp, data=tile[:, 0:1024])
    nisa.tensor_scalar(
        dst=tile[:, {start} : {start} + 1024], data=tile[:, {start} : {start} + 1024],
        op0=nl.multiply, operand0=2.0,
    )
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def test_disjoint_halves_of_a_tile_do_not_wait_for_each_other() -> None:
    apart = run(HALVES.format(start=1024), {"x": (128, 2048)})
    across = run(HALVES.format(start=1000), {"x": (128, 2048)})
    assert spans(apart, Engine.VECTOR)[0][0] == spans(apart, Engine.SCALAR)[0][0]
    assert spans(across, Engine.VECTOR)[0][0] == spans(across, Engine.SCALAR)[0][1]


ACCUMULATE = """(a, b):
    out = hbm((128, 512))
    left, right = sbuf(a.shape, a.dtype), sbuf(b.shape, b.dtype)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    one, two = psum((128, 512)), psum((128, 512))
    for _ in range(4):
        nisa.nc_matmul(dst=one, stationary=left, moving=right)
    result = sbuf((128, 512))
    nisa.activation(dst=result, op=nl.copy, data=one)
    nisa.nc_matmul(dst={bank}, stationary=left, moving=right)
    nisa.tensor_tensor(dst=result, data1=result, data2={bank}, op=nl.add)
    nisa.dma_copy(dst=out, src=result)
    return out
"""
SMALL = {"a": (128, 128), "b": (128, 512)}


def test_matmuls_onto_one_bank_follow_without_a_gap() -> None:
    timeline = run(ACCUMULATE.format(bank="two"), SMALL, dtype=DType.BFLOAT16)
    starts = [start for start, _ in spans(timeline, Engine.TENSOR)]
    assert np.diff(starts) == pytest.approx([512 / trn2().tensor_clock_ghz] * 4)


def test_a_matmul_waits_until_its_bank_is_read() -> None:
    timeline = run(ACCUMULATE.format(bank="one"), SMALL, dtype=DType.BFLOAT16)
    copied = spans(timeline, Engine.SCALAR)[0][0] + 512 / trn2().scalar_clock_ghz
    assert spans(timeline, Engine.TENSOR)[-1][0] == pytest.approx(copied)


def test_reading_a_bank_waits_for_the_last_matmul() -> None:
    timeline = run(ACCUMULATE.format(bank="two"), SMALL, dtype=DType.BFLOAT16)
    assert spans(timeline, Engine.SCALAR)[0][0] == spans(timeline, Engine.TENSOR)[3][1]


def test_a_tensor_waits_for_the_earlier_owners_of_its_bytes() -> None:
    program = trace(EXP, {"x": (512, 1024)})
    tiles = [i for i, t in enumerate(program.tensors) if t.memory.is_on_chip]
    reuses: list[tuple[int, ...]] = [()] * len(program.tensors)
    free = schedule(program, trn2(), Reuse(tuple(reuses)))
    for tile, earlier in zip(tiles[2:], tiles, strict=False):
        reuses[tile] = (earlier,)
    single = schedule(program, trn2(), Reuse(tuple(reuses)))
    assert free.latency_ns == schedule(program, trn2()).latency_ns
    assert single.latency_ns > free.latency_ns
    loads = range(0, len(program.bodies[0]), 3)
    assert len(loads) == 4
    for earlier, later in pairwise(loads):
        read = single.start_ns[earlier + 1] + 1024 / trn2().scalar_clock_ghz
        assert single.start_ns[later] >= read - 1e-6


def test_a_store_that_waits_does_not_hold_back_loads() -> None:
    timeline = run(EXP, {"x": (1024, 2048)})
    assert timeline.utilisation(Engine.DMA) > 0.85


def test_a_dma_queue_of_an_engine_waits_among_its_instructions() -> None:
    source = """(x):
    out = hbm(x.shape)
    tile, result = sbuf(x.shape), sbuf(x.shape)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=result, op=nl.exp, data=tile)
    other = sbuf(x.shape)
    nisa.dma_copy(dst=other, src=x, engine=nisa.engine.{engine}, dge_mode=nisa.dge_mode.hwdge)
    nisa.tensor_tensor(dst=result, data1=result, data2=other, op=nl.add)
    nisa.dma_copy(dst=out, src=result)
    return out
"""
    on_scalar = run(source.format(engine="scalar"), {"x": (128, 2048)})
    on_sync = run(source.format(engine="sync"), {"x": (128, 2048)})
    assert spans(on_scalar, Engine.DMA)[1][0] >= spans(on_scalar, Engine.SCALAR)[0][0]
    assert spans(on_sync, Engine.DMA)[1][0] < spans(on_sync, Engine.SCALAR)[0][0]


TURNS = """(x):
    out = hbm(x.shape)
    tile, one, two = sbuf(x.shape), sbuf(x.shape), sbuf(x.shape)
    nisa.dma_copy(dst=tile, src=x)
    nisa.memset(dst=one, value=1.0, engine=nisa.engine.gpsimd)
    nisa.memset(dst=two, value=1.0, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=one, data1=one, data2=two, op=nl.add)
    nisa.tensor_tensor(dst=one, data1=one, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=one)
    return out
"""


def test_vector_and_gpsimd_take_turns_at_sbuf_on_the_older_chip_only() -> None:
    older = run(TURNS, {"x": (128, 1024)}, target=Target.TRN1)
    newer = run(TURNS, {"x": (128, 1024)}, target=Target.TRN2)
    assert spans(older, Engine.VECTOR)[0][0] >= spans(older, Engine.GPSIMD)[0][1]
    assert spans(newer, Engine.VECTOR)[0][0] == spans(newer, Engine.GPSIMD)[0][0]


def test_narrow_tiles_use_few_dma_engines() -> None:
    source = """(x):
    out = hbm(x.shape)
    tile = sbuf(x.shape)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
    narrow = run(source, {"x": (8, 128 * 2048 // 8)})
    wide = run(source, {"x": (128, 2048)})
    assert narrow.dma.payload_bytes == wide.dma.payload_bytes
    assert narrow.busy_ns[Engine.DMA] == pytest.approx(16 * wide.busy_ns[Engine.DMA], rel=0.01)


def test_the_same_program_gives_the_same_timeline() -> None:
    one, two = (run(MATMUL, {"a": (512, 512), "b": (512, 1024)}) for _ in range(2))
    assert one.end_ns.tobytes() == two.end_ns.tobytes()
    assert one.limit == two.limit


def test_an_empty_program_takes_no_time() -> None:
    program = trace("(x):\n    out = hbm(x.shape)\n    return out\n", {"x": (128, 128)})
    timeline = schedule(program, trn2())
    assert (timeline.latency_ns, timeline.num_instructions) == (0.0, 0)
    assert timeline.utilisation(Engine.DMA) == 0.0
