"""The schedule of run-time loops, run-time offsets, explicit order, and two cores."""

import msgspec
import numpy as np
import pytest

from nki_agent.base.diagnostic import Severity
from nki_agent.chip.spec import Target
from nki_agent.cost import execution
from nki_agent.cost.bound import Work, bound_ns
from nki_agent.cost.perfetto import write_trace
from nki_agent.cost.summary import format_summary, summarise
from nki_agent.cost.timeline import Timeline, schedule
from nki_agent.isa.enums import Engine
from nki_agent.memory.placement import place_program
from tests.cost.kernels import run, trace, trn1, trn2

ROWS = {"x": (4096, 512)}
LOOP = """(x):
    out = hbm(x.shape)
    upper = {upper}
    def step(i):
        tile = sbuf((128, 512))
        nisa.dma_copy(dst=tile, src=x.ap([[512, 128], [1, 512]], scalar_offset=i))
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out.ap([[512, 128], [1, 512]], scalar_offset=i), src=tile)
    nl.fori_loop(0, upper, step, step=128)
    return out
"""
RUN_TIME = """nisa.register_alloc()
    count = sbuf((1, 1), nl.int32)
    nisa.memset(dst=count, value=4096)
    nisa.register_load(upper, count)"""
KNOWN, UNKNOWN = LOOP.format(upper=4096), LOOP.format(upper=RUN_TIME)


def counts(timeline: Timeline, op: Engine) -> int:
    chosen = [i for i in range(len(timeline.nodes)) if timeline.engine(i) is op]
    return int(timeline.weights[chosen].sum())


# -- loops ----------------------------------------------------------------------------------------


def test_loop_with_known_bounds_runs_every_iteration() -> None:
    timeline = run(KNOWN, ROWS)
    assert timeline.num_instructions == 3 * 32
    assert timeline.nodes.tolist() == [0, 1, 2] * 32
    assert timeline.dma.read_bytes == 4096 * 512 * 4
    assert timeline.findings == ()


def test_loop_is_slower_than_its_iterations_unrolled_and_not_by_much_more() -> None:
    unrolled = KNOWN.replace("scalar_offset=i", "offset=i * 512")
    unrolled = unrolled.replace(
        "    nl.fori_loop(0, upper, step, step=128)\n",
        "    for i in range(0, upper, 128):\n        step(i)\n",
    )
    fast, slow = run(unrolled, ROWS), run(KNOWN, ROWS)
    assert fast.latency_ns < slow.latency_ns
    # One tile for all iterations: load, compute and store follow one another.
    serial = sum(float(np.median((slow.end_ns - slow.start_ns)[i::3])) for i in range(3))
    assert slow.latency_ns <= 32 * (serial + 1000)


def test_iterations_that_touch_different_rows_do_not_wait_for_each_other() -> None:
    moving = """(x):
    out = hbm((4096, 512))
    tile = nl.zeros((128, 512), dtype=nl.float32)
    def step(i):
        nisa.dma_copy(dst=out.ap([[512, 128], [1, 512]], scalar_offset={row}), src=tile)
    still = nisa.register_alloc(0)
    nl.fori_loop(0, 4096, step, step=128)
    return out
"""
    apart, same = (run(moving.format(row=row), {"x": (1, 1)}) for row in ("i", "still"))
    assert apart.latency_ns < 0.6 * same.latency_ns


def test_run_time_loop_counts_once_and_says_so() -> None:
    timeline = run(UNKNOWN, ROWS)
    (finding,) = timeline.findings
    assert (finding.code, finding.severity) == ("NK602", Severity.ADVICE)
    assert counts(timeline, Engine.SCALAR) == 1
    assert "one iteration" in format_summary(summarise(timeline, trace(UNKNOWN, ROWS)))


def test_run_time_loop_runs_as_often_as_the_simulator_counted() -> None:
    program = trace(UNKNOWN, ROWS)
    timeline = schedule(program, trn2(), trips={0: 32})
    assert counts(timeline, Engine.SCALAR) == 32
    assert timeline.findings == ()
    known = run(KNOWN, ROWS).latency_ns
    # Offsets that are not known make stores wait for each other.
    assert known < timeline.latency_ns < 1.5 * known
    assert schedule(program, trn2(), trips={0: 0}).dma.transfers == 0


def test_loop_waits_for_the_register_of_its_bound() -> None:
    timeline = schedule(trace(UNKNOWN, ROWS), trn2(), trips={0: 2})
    load = timeline.nodes.tolist().index(1)
    assert float(timeline.start_ns[load + 1]) >= float(timeline.end_ns[load])


def test_while_loop_waits_for_each_next_condition() -> None:
    source = """(x):
    out = hbm((1, 1))
    flag = nisa.register_alloc(1)
    cell = nl.zeros((1, 1), dtype=nl.int32)
    other = sbuf((128, 512))
    def step(r):
        nisa.memset(dst=other, value=0.0, engine=nisa.gpsimd_engine)
        nisa.register_load(r, cell)
        return r
    nl.while_loop(flag, step)
    nisa.dma_copy(dst=out, src=cell)
    return out
"""
    source = source.replace(", engine=nisa.gpsimd_engine", "")
    timeline = schedule(trace(source, {"x": (1, 1)}), trn2(), trips={0: 5})
    numbers = timeline.nodes.tolist()
    fills = [i for i, n in enumerate(numbers) if n == 2]
    loads = [i for i, n in enumerate(numbers) if n == 3]
    assert len(fills) == len(loads) == 5
    for load, fill in zip(loads, fills[1:], strict=False):
        assert timeline.start_ns[fill] >= timeline.end_ns[load]


NESTED = """(x):
    out = hbm((128, 512))
    a = nl.zeros((128, 512), dtype=nl.float32)
    b = nl.zeros((128, 512), dtype=nl.float32)
    def inner(j):
        nisa.activation(dst=b, op=nl.exp, data=a)
        nisa.tensor_scalar(dst=a, data=b, op0=nl.multiply, operand0=0.5)
    def outer(i):
        nisa.dma_copy(dst=a, src=x)
        nl.fori_loop(0, {inner}, inner)
        nisa.dma_copy(dst=out, src=a)
    nl.fori_loop(0, {outer}, outer)
    return out
"""


@pytest.mark.parametrize("limit", [4000, 1000, 40])
def test_iterations_left_out_take_as_long_as_those_that_ran(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = trace(NESTED.format(inner=50, outer=100), {"x": (128, 512)})
    whole = schedule(program, trn2())
    assert len(whole.nodes) == whole.num_instructions == 2 + 100 * (2 + 2 * 50)
    monkeypatch.setattr(execution, "EXECUTED_MAX", limit)
    cut = schedule(program, trn2())
    assert len(cut.nodes) <= limit
    assert cut.num_instructions == whole.num_instructions
    assert cut.dma == whole.dma
    # With one iteration run of each loop nothing of one overlaps the next.
    assert cut.latency_ns == pytest.approx(whole.latency_ns, rel=0.15 if limit < 100 else 0.01)
    for engine in (Engine.SCALAR, Engine.VECTOR, Engine.DMA):
        assert cut.busy_ns[engine] == pytest.approx(whole.busy_ns[engine], rel=0.2)
    assert cut.path.ns.sum() == pytest.approx(cut.latency_ns)


def test_a_loop_of_many_iterations_is_scheduled_at_once() -> None:
    timeline = run(NESTED.format(inner=10_000, outer=100_000), {"x": (128, 512)})
    assert timeline.num_instructions == 2 + 100_000 * (2 + 20_000)
    assert len(timeline.nodes) < execution.EXECUTED_MAX
    one = run(NESTED.format(inner=10_000, outer=1), {"x": (128, 512)})
    assert timeline.latency_ns == pytest.approx(100_000 * one.latency_ns, rel=0.05)


def test_loop_is_deterministic() -> None:
    program = trace(NESTED.format(inner=100, outer=10_000), {"x": (128, 512)})
    first, second = (schedule(program, trn2()) for _ in range(2))
    assert first.start_ns.tobytes() == second.start_ns.tobytes()
    assert first.causes.tobytes() == second.causes.tobytes()


def test_tensors_of_a_body_that_share_bytes_wait_for_each_other_round_the_loop() -> None:
    source = """(x):
    out = hbm((2, 128, 512))
    big = sbuf((128, 40000))
    nisa.memset(dst=big, value=0.0)
    def step(i):
        one = sbuf((128, {cols}))
        nisa.dma_copy(dst=one[:, 0:512], src=x)
        nisa.dma_copy(dst=out[0], src=one[:, 0:512])
        two = sbuf((128, {cols}))
        nisa.dma_copy(dst=two[:, 0:512], src=x)
        nisa.dma_copy(dst=out[1], src=two[:, 0:512])
        nisa.tensor_copy(dst=big[:, 0:1], src=big[:, 1:2])
    nl.fori_loop(0, 20, step)
    return out
"""
    times = []
    for cols in (4000, 12000):
        program = trace(source.format(cols=cols), {"x": (128, 512)})
        placement, findings = place_program(program, trn2())
        assert findings == ()
        times.append(schedule(program, trn2(), placement).latency_ns)
    assert times[1] > 1.2 * times[0]


# -- run-time offsets -----------------------------------------------------------------------------


GATHER = """(x):
    out = hbm((128, 64))
    rows = sbuf((128, 1), nl.int32)
    nisa.memset(dst=rows, value=0)
    tile = sbuf((128, 64))
    nisa.dma_copy(dst=tile, src={source})
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


def test_rows_by_index_are_one_descriptor_each_and_made_by_gpsimd() -> None:
    indexed = "x.ap([[64, 128], [1, 64]], vector_offset=rows)"
    program = trace(GATHER.format(source=indexed), {"x": (4096, 64)})
    timeline = schedule(program, trn2())
    plan = timeline.plans[int(timeline.plan_of[1])]
    assert plan.transfer is not None
    assert (plan.transfer.descriptors, plan.transfer.issuer) == (128, Engine.GPSIMD)
    assert timeline.busy_ns[Engine.GPSIMD] > 128 * trn2().dma_swdge_descriptor_cycles / 2
    static = run(GATHER.format(source="x[0:128]"), {"x": (4096, 64)})
    assert static.latency_ns < timeline.latency_ns


@pytest.mark.parametrize(
    ("target", "issuer"), [(Target.TRN1, Engine.GPSIMD), (Target.TRN2, Engine.SYNC)]
)
def test_one_run_time_offset_is_made_in_hardware_where_there_is_some(
    target: Target, issuer: Engine
) -> None:
    source = GATHER.format(source="x.ap([[64, 128], [1, 64]], scalar_offset=rows[0:1, 0:1])")
    timeline = run(source, {"x": (4096, 64)}, target=target)
    plan = timeline.plans[int(timeline.plan_of[1])]
    assert plan.transfer is not None
    assert plan.transfer.issuer is issuer
    assert bool(plan.transfer.descriptor_engine_ns) == (issuer is Engine.SYNC)


def test_sums_by_dma_read_every_source() -> None:
    source = """(x, y):
    out = hbm((128, 512))
    tile = sbuf((128, 512))
    nisa.dma_compute(dst=tile, srcs=[x, y], reduce_op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
    timeline = run(source, {"x": (128, 512), "y": (128, 512)})
    assert timeline.dma.read_bytes == 2 * 128 * 512 * 4
    assert timeline.start_ns[1] >= timeline.end_ns[0]


# -- explicit order -------------------------------------------------------------------------------


PAIR = """(x):
    out = hbm((128, 1))
    a = sbuf((128, 2048))
    b = sbuf((128, 2048))
    {text}
    return out
"""


def test_instruction_starts_after_what_it_depends_on() -> None:
    text = """first = nisa.activation(dst=a, op=nl.exp, data=a)
    nisa.tensor_scalar(dst=b, data=b, op0=nl.add, operand0=1.0){after}"""
    free = run(PAIR.format(text=text.format(after="")), {"x": (1, 1)})
    bound = run(PAIR.format(text=text.format(after=".depends_on(first)")), {"x": (1, 1)})
    assert free.start_ns[1] == 0.0
    assert bound.start_ns[1] == bound.end_ns[0]
    assert bound.causes[1] == 0


def test_engines_take_turns_inside_no_reorder() -> None:
    text = """with nl.no_reorder():
        nisa.activation(dst=a, op=nl.exp, data=a)
        nisa.tensor_scalar(dst=b, data=b, op0=nl.add, operand0=1.0)
        nisa.activation(dst=a, op=nl.exp, data=b)
    nisa.memset(dst=b[:, 0:1], value=0.0)"""
    timeline = run(PAIR.format(text=text), {"x": (1, 1)})
    assert (timeline.start_ns[1:3] >= timeline.end_ns[0:2]).all()


# -- two cores ------------------------------------------------------------------------------------


SHARED = """(x):
    out = hbm(x.shape)
    core, rows = nl.program_id(0), x.shape[0] // nl.num_programs()
    for r in range(core * rows, core * rows + rows, 128):
        tile = sbuf((128, 2048))
        nisa.dma_copy(dst=tile, src=x[r : r + 128])
        nisa.dma_copy(dst=out[r : r + 128], src=tile)
    return out
"""


def test_two_cores_move_twice_the_bytes() -> None:
    shapes = {"x": (4096, 2048)}
    one, two = (schedule(trace(SHARED, shapes, cores=n), trn2()) for n in (1, 2))
    assert one.dma == two.dma
    assert two.latency_ns == pytest.approx(one.latency_ns / 2, rel=0.1)
    assert two.num_cores == 2
    work = Work(hbm_bytes=2 * 4096 * 2048 * 4)
    assert bound_ns(work, trn2(), cores=2).percent(two.latency_ns) <= 100


MEETING = """(x):
    out = hbm((256, 512))
    core = nl.program_id(0)
    tile = nl.zeros((128, 512), dtype=nl.float32)
    for i in range(20 * core):
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    {meet}
    nisa.dma_copy(dst=out[core * 128 : core * 128 + 128], src=tile)
    return out
"""
BARRIER = """nisa.dma_copy(dst=out[core * 128 : core * 128 + 128], src=tile)
    nisa.core_barrier(data=out, cores=(0, 1))
    nisa.dma_copy(dst=tile, src=out[128 - core * 128 : 256 - core * 128])"""
EXCHANGE = """other = sbuf((128, 512))
    nisa.sendrecv(src=tile, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.tensor_copy(dst=tile, src=other)"""


@pytest.mark.parametrize("meet", [BARRIER, EXCHANGE])
def test_cores_go_on_together_from_where_they_meet(meet: str) -> None:
    shapes = {"x": (1, 1)}
    apart = schedule(trace(MEETING.format(meet="pass"), shapes, cores=2), trn2())
    program = trace(MEETING.format(meet=meet), shapes, cores=2)
    met = schedule(program, trn2())
    first = [
        next(
            float(met.start_ns[i])
            for i in np.flatnonzero(met.cores == core).tolist()
            if program.signatures[met.instructions[i].signature].op in ("core_barrier", "sendrecv")
        )
        for core in (0, 1)
    ]
    assert first[0] == first[1] > 0.0
    stores = [int(np.flatnonzero(met.cores == core)[-1]) for core in (0, 1)]
    alone = int(np.flatnonzero(apart.cores == 0)[-1])
    assert met.start_ns[stores[0]] > apart.start_ns[alone]
    assert met.path.ns.sum() == pytest.approx(met.latency_ns)


def test_trace_has_a_process_for_each_core(tmp_path: object) -> None:
    program = trace(MEETING.format(meet=BARRIER), {"x": (1, 1)}, cores=2)
    timeline = schedule(program, trn2())
    path = tmp_path / "trace.json"  # type: ignore[operator]
    write_trace(timeline, program, path)
    events = msgspec.json.decode(path.read_bytes())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {1: "kernel on core 0", 2: "kernel on core 1"}
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in slices} == {1, 2}
    assert len(slices) == timeline.num_instructions


def test_chip_without_hardware_descriptors_still_schedules_loops() -> None:
    assert schedule(trace(KNOWN, ROWS, target=Target.TRN1), trn1()).latency_ns > 0
