"""Engine times against the documented costs."""

import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.timeline import Timeline, schedule
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine
from tests.cost.kernels import run, trace

CHAIN = """(x):
    out = hbm(x.shape, x.dtype)
    tile = sbuf(x.shape, x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(9):
        {call}
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
APART = """(x):
    out = hbm(x.shape, x.dtype)
    tile = sbuf(x.shape, x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(9):
        result = sbuf(x.shape, x.dtype)
        {call}
    nisa.dma_copy(dst=out, src=result)
    return out
"""
EXP = "nisa.activation(dst={dst}, op=nl.exp, data=tile)"
ADD = "nisa.tensor_tensor(dst={dst}, data1=tile, data2=tile, op=nl.add)"
SCALE = "nisa.tensor_scalar(dst={dst}, data=tile, op0=nl.multiply, operand0=2.0)"


def cycles_between_starts(timeline: Timeline, engine: Engine, clock_ghz: float) -> float:
    starts = [
        float(timeline.start_ns[i])
        for i in range(timeline.num_instructions)
        if timeline.engine(i) is engine
    ]
    return (starts[-1] - starts[0]) / (len(starts) - 1) * clock_ghz


def chain(call: str, elems: int, *, target: Target, dtype: DType = DType.FLOAT32) -> Timeline:
    return run(
        CHAIN.format(call=call.format(dst="tile")), {"x": (128, elems)}, target=target, dtype=dtype
    )


def apart(call: str, elems: int, *, target: Target, dtype: DType = DType.FLOAT32) -> Timeline:
    return run(
        APART.format(call=call.format(dst="result")),
        {"x": (128, elems)},
        target=target,
        dtype=dtype,
    )


@pytest.mark.parametrize(("target", "cycles"), [(Target.TRN1, 264), (Target.TRN2, 266)])
def test_dependent_one_element_activations_start_as_far_apart_as_measured(
    target: Target, cycles: float
) -> None:
    """NKI performance guide: 189 ns on Trn1 and 222 ns on Trn2."""
    timeline = chain(EXP, 1, target=target)
    clock = load_chip(target).scalar_clock_ghz
    assert cycles_between_starts(timeline, Engine.SCALAR, clock) == pytest.approx(cycles, rel=0.01)


def test_dependent_vector_instructions_cost_what_trn1_counters_say() -> None:
    """Two SBUF operands take 2 cycles an element, one takes 1, plus 110 to 140 an instruction."""
    clock = load_chip(Target.TRN1).vector_clock_ghz
    two = cycles_between_starts(chain(ADD, 512, target=Target.TRN1), Engine.VECTOR, clock)
    one = cycles_between_starts(chain(SCALE, 512, target=Target.TRN1), Engine.VECTOR, clock)
    assert 110 <= two - 2 * 512 <= 140
    assert 110 <= one - 512 <= 140


def test_independent_instructions_hide_the_overhead() -> None:
    clock = load_chip(Target.TRN2).vector_clock_ghz
    timeline = apart(SCALE, 512, target=Target.TRN2)
    assert cycles_between_starts(timeline, Engine.VECTOR, clock) == pytest.approx(512)


def test_small_independent_instructions_do_not_go_under_the_static_overhead() -> None:
    """Architecture guide: about 100 cycles where N is far under 128."""
    clock = load_chip(Target.TRN1).vector_clock_ghz
    timeline = apart(SCALE, 4, target=Target.TRN1)
    assert cycles_between_starts(timeline, Engine.VECTOR, clock) == pytest.approx(100)


def test_vector_performance_mode_is_four_times_faster() -> None:
    clock = load_chip(Target.TRN2).vector_clock_ghz
    timeline = apart(SCALE, 2048, target=Target.TRN2, dtype=DType.BFLOAT16)
    assert cycles_between_starts(timeline, Engine.VECTOR, clock) == pytest.approx(512)


def test_a_wide_innermost_stride_halves_the_rate() -> None:
    call = "nisa.activation(dst=result[:, 0:{n}], op=nl.exp, data=tile[:, 0:{m}:{s}])"
    clock = load_chip(Target.TRN2).scalar_clock_ghz
    for step, factor in ((1, 1), (4, 1), (5, 2)):
        source = call.format(n=512, m=512 * step, s=step)
        timeline = apart(source, 2560, target=Target.TRN2)
        got = cycles_between_starts(timeline, Engine.SCALAR, clock)
        assert got == pytest.approx(512 * factor)


def test_gpsimd_does_not_hide_its_start() -> None:
    chip = load_chip(Target.TRN2)
    source = "nisa.iota(dst=result, pattern=[[1, 512]], offset=0, channel_multiplier=0)"
    timeline = run(
        APART.format(call=source), {"x": (128, 512)}, target=Target.TRN2, dtype=DType.INT32
    )
    got = cycles_between_starts(timeline, Engine.GPSIMD, chip.gpsimd_clock_ghz)
    assert got == pytest.approx(512 + chip.gpsimd_overhead_cycles)


@pytest.mark.parametrize(
    ("columns", "dtype", "cycles"),
    [
        (512, DType.BFLOAT16, 512),
        (512, DType.FLOAT32, 2048),
        (128, DType.BFLOAT16, 128),
        (8, DType.BFLOAT16, 64),
    ],
)
def test_matmul_interval_is_the_moving_size_times_the_passes(
    columns: int, dtype: DType, cycles: int
) -> None:
    source = """(a, b):
    out = hbm((128, b.shape[1]))
    left, right = sbuf(a.shape, a.dtype), sbuf(b.shape, b.dtype)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    total = psum((128, b.shape[1]))
    for _ in range(5):
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
    result = sbuf((128, b.shape[1]))
    nisa.activation(dst=result, op=nl.copy, data=total)
    nisa.dma_copy(dst=out, src=result)
    return out
"""
    program = trace(source, {"a": (128, 128), "b": (128, columns)}, dtype=dtype)
    chip = load_chip(Target.TRN2)
    timeline = schedule(program, chip)
    got = cycles_between_starts(timeline, Engine.TENSOR, chip.tensor_clock_ghz)
    assert got == pytest.approx(cycles)
