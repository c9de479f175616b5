"""The memory pass on run-time loops, run-time offsets and partial writes."""

import pytest

from nki_agent.base.diagnostic import Severity
from nki_agent.chip.spec import Target
from tests.memory.traced import Placed, place_body

OUT = "o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
COUNT = """n = nl.ndarray((1, 1), dtype=nl.int32)
nisa.memset(dst=n, value=3)
upper = nisa.register_alloc()
nisa.register_load(upper, n)
"""


def place(text: str, *shapes: tuple[int, ...], target: Target = Target.TRN2) -> Placed:
    return place_body(OUT + text + "\nreturn o", *shapes, target=target)


def severities(placed: Placed) -> list[tuple[str, Severity]]:
    return [(f.code, f.severity) for f in placed.findings]


# -- liveness -------------------------------------------------------------------------------------


def test_tensor_that_outlives_a_loop_is_live_for_all_of_it() -> None:
    text = """
outer = nl.zeros((128, 30000), dtype=nl.float32, name="outer")
def step(i):
    nisa.dma_copy(dst=o, src=outer[:, 0:8])
    late = nl.zeros((128, {late}), dtype=nl.float32)
    nisa.dma_copy(dst=o, src=late[:, 0:8])
nl.fori_loop(0, 4, step)
"""
    assert place(text.format(late=20000), (128, 8)).codes == []
    full = place(text.format(late=30000), (128, 8))
    assert full.codes == ["NK205"]
    assert "`outer`" in full.findings[0].hint


def test_tensors_of_a_loop_body_share_bytes_when_one_ends_before_the_other() -> None:
    placed = place(
        """
def step(i):
    one = nl.ndarray((128, 30000), dtype=nl.float32, name="one")
    nisa.memset(dst=one, value=0.0)
    nisa.dma_copy(dst=o, src=one[:, 0:8])
    two = nl.ndarray((128, 30000), dtype=nl.float32, name="two")
    nisa.memset(dst=two, value=0.0)
    nisa.dma_copy(dst=o, src=two[:, 0:8])
nl.fori_loop(0, 4, step)
""",
        (128, 8),
    )
    assert placed.codes == []
    assert placed.placement.reuses[placed.id("two")] == (placed.id("one"),)


def test_tensor_of_an_outer_loop_is_live_for_all_of_an_inner_one() -> None:
    placed = place(
        """
def outer(i):
    held = nl.zeros((128, 8), dtype=nl.float32, name="held")
    def use(j):
        nisa.dma_copy(dst=o, src=held)
        late = nl.zeros((128, 8), dtype=nl.float32, name="late")
        nisa.dma_copy(dst=o, src=late)
    nl.fori_loop(0, 4, use)
nl.fori_loop(0, 4, outer)
""",
        (128, 8),
    )
    assert placed.codes == []
    held, late = placed.id("held"), placed.id("late")
    assert placed.placement.last_use[held] == placed.placement.last_use[late]


# -- unwritten reads ------------------------------------------------------------------------------


def test_read_before_write_in_a_body_is_an_error_of_the_first_iteration() -> None:
    placed = place(
        """
t = nl.ndarray((128, 8), dtype=nl.float32)
def step(i):
    nisa.dma_copy(dst=o, src=t)
    nisa.memset(dst=t, value=0.0)
nl.fori_loop(0, 4, step)
""",
        (128, 8),
    )
    assert severities(placed) == [("NK207", Severity.ERROR)]


@pytest.mark.parametrize(
    ("bound", "found"),
    [("4", []), ("nisa.register_alloc(4)", []), ("upper", [("NK207", Severity.WARNING)])],
)
def test_write_in_a_loop_counts_after_it_if_the_loop_surely_runs(
    bound: str, found: list[tuple[str, Severity]]
) -> None:
    placed = place(
        COUNT
        + f"""
t = nl.ndarray((128, 8), dtype=nl.float32)
def step(i):
    nisa.memset(dst=t, value=0.0)
nl.fori_loop(0, {bound}, step)
nisa.dma_copy(dst=o, src=t)
""",
        (128, 8),
    )
    assert severities(placed) == found


def test_write_in_a_loop_counts_for_reads_in_the_same_loop() -> None:
    placed = place(
        COUNT
        + """
t = nl.ndarray((128, 8), dtype=nl.float32)
def step(i):
    nisa.memset(dst=t, value=0.0)
    nisa.dma_copy(dst=o, src=t)
nl.fori_loop(0, upper, step)
""",
        (128, 8),
    )
    assert placed.codes == []


def test_loop_that_never_runs_reads_and_writes_nothing() -> None:
    placed = place(
        """
t = nl.ndarray((128, 8), dtype=nl.float32)
def step(i):
    nisa.dma_copy(dst=o, src=t)
nl.fori_loop(4, 4, step)
""",
        (128, 8),
    )
    assert placed.codes == ["NK208"]


SCRATCH = """
w = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.private_hbm)
t = nl.zeros((1, 8), dtype=nl.float32)
def step(i):
    nisa.dma_copy(dst=w.ap([[8, 1], [1, 8]], scalar_offset=i), src=t)
nl.fori_loop(0, {upper}, step)
nisa.dma_copy(dst=o, src=w)
"""


def test_rows_that_a_known_counter_passes_over_are_written() -> None:
    assert place(SCRATCH.format(upper=64), (64, 8)).codes == []


def test_rows_that_a_known_counter_leaves_out_are_an_error() -> None:
    placed = place(SCRATCH.format(upper=32), (64, 8))
    assert severities(placed) == [("NK207", Severity.ERROR)]
    assert "from element 256 on" in placed.findings[0].what


def test_write_at_an_unknown_offset_makes_a_read_doubtful() -> None:
    text = COUNT + SCRATCH.replace("scalar_offset=i", "scalar_offset=upper").format(upper=4)
    placed = place(text, (64, 8))
    assert severities(placed) == [("NK207", Severity.WARNING)]
    assert "run-time offset" in placed.findings[0].what


def test_read_at_an_unknown_offset_asks_for_all_that_it_reaches() -> None:
    text = (
        COUNT
        + """
w = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.private_hbm)
t = nl.ndarray((1, 8), dtype=nl.float32)
{fill}
nisa.dma_copy(dst=t, src=w.ap([[8, 1], [1, 8]], scalar_offset=upper))
nisa.dma_copy(dst=o, src=t)
"""
    )
    whole = place(text.format(fill="nisa.dma_copy(dst=w, src=b)"), (1, 8), (64, 8))
    assert whole.codes == []
    half = place(text.format(fill="nisa.dma_copy(dst=w[0:32], src=b[0:32])"), (1, 8), (64, 8))
    assert severities(half) == [("NK207", Severity.WARNING)]
    none = place(text.format(fill=""), (1, 8), (64, 8))
    assert severities(none) == [("NK207", Severity.ERROR)]


def test_counter_that_reads_what_the_iteration_before_wrote_is_good() -> None:
    placed = place(
        """
w = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.private_hbm)
nisa.dma_copy(dst=w[0:1], src=b)
t = nl.ndarray((1, 8), dtype=nl.float32)
def step(i):
    nisa.dma_copy(dst=t, src=w.ap([[8, 1], [1, 8]], scalar_offset=i))
    nisa.dma_copy(dst=w.ap([[8, 1], [1, 8]], offset=8, scalar_offset=i), src=t)
nl.fori_loop(0, 63, step)
nisa.dma_copy(dst=o, src=w)
""",
        (64, 8),
        (1, 8),
    )
    assert placed.codes == []


def test_result_written_at_unknown_offsets_is_left_to_the_simulator() -> None:
    placed = place(
        COUNT
        + """
t = nl.zeros((1, 8), dtype=nl.float32)
nisa.dma_copy(dst=o.ap([[8, 1], [1, 8]], scalar_offset=upper), src=t)
""",
        (64, 8),
    )
    assert placed.codes == []


def test_result_that_a_known_counter_writes_in_part_is_refused() -> None:
    placed = place(
        """
t = nl.zeros((1, 8), dtype=nl.float32)
def step(i):
    nisa.dma_copy(dst=o.ap([[8, 1], [1, 8]], scalar_offset=i), src=t)
nl.fori_loop(0, 50, step)
""",
        (64, 8),
    )
    assert placed.codes == ["NK208"]
    assert "112 of 512" in placed.findings[0].what


# -- partial writes -------------------------------------------------------------------------------


def test_nonzero_with_count_touches_the_first_partition_of_each_group() -> None:
    text = """
src = nl.ndarray((32, 8), dtype=nl.float32)
nisa.memset(dst=src{filled}, value=0.0)
t = nl.ndarray((32, 9), dtype=nl.int32)
nisa.nonzero_with_count(dst=t, src=src)
q = nl.ndarray((32, 9), dtype=nl.float32)
nisa.tensor_copy(dst=q{read}, src=t{read})
nisa.dma_copy(dst=o, src=q{read})
"""
    assert place(text.format(filled="", read="[0:1]"), (1, 9)).codes == []
    read = place(text.format(filled="", read=""), (32, 9))
    assert severities(read) == [("NK207", Severity.ERROR)]
    assert "partitions 1..31" in read.findings[0].what
    source = place(text.format(filled="[0:1]", read="[0:1]"), (1, 9))
    assert severities(source) == [("NK207", Severity.WARNING)]
    assert "partitions 16..16" in source.findings[0].what


def test_shuffle_writes_no_partition_that_its_mask_keeps() -> None:
    text = """
src = nl.ndarray((32, 8), dtype=nl.float32)
nisa.memset(dst=src[0:1], value=0.0)
t = nl.ndarray((32, 8), dtype=nl.float32)
nisa.nc_stream_shuffle(dst=t, src=src, shuffle_mask=[0] * 16 + [{rest}] * 16)
nisa.dma_copy(dst=o, src=t)
"""
    assert place(text.format(rest=0), (32, 8)).codes == []
    kept = place(text.format(rest=255), (32, 8))
    assert severities(kept) == [("NK207", Severity.ERROR)]
    assert "partitions 16..31" in kept.findings[0].what
    assert place(text.format(rest=1), (32, 8)).codes == ["NK207"]


def test_scales_lie_in_four_partitions_of_each_quadrant() -> None:
    text = """
src = nl.ndarray((64, 16), dtype=nl.bfloat16)
nisa.memset(dst=src, value=0.0)
t = nl.ndarray((64, 4), dtype=nl.float8_e4m3fn_x4)
s = nl.ndarray((64, 4), dtype=nl.uint8)
nisa.quantize_mx(dst=t, src=src, dst_scale=s)
{use}
"""
    matmul = """
p = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul_mx(dst=p, stationary=t, moving=t, stationary_scale=s, moving_scale=s)
u = nl.ndarray((4, 4), dtype=nl.float32)
nisa.tensor_copy(dst=u, src=p)
nisa.dma_copy(dst=o, src=u)
"""
    used = place(text.format(use=matmul), (4, 4), target=Target.TRN3)
    assert used.codes == []
    copy = """
u = nl.ndarray((64, 4), dtype=nl.float32)
nisa.tensor_copy(dst=u, src=s)
nisa.dma_copy(dst=o, src=u)
"""
    copied = place(text.format(use=copy), (64, 4), target=Target.TRN3)
    assert severities(copied) == [("NK207", Severity.ERROR)]
    assert "reads 224 elements" in copied.findings[0].what


# -- accumulation ---------------------------------------------------------------------------------

MATMUL = """
s = nl.zeros((128, 8), dtype=nl.float32)
{before}
def step(i):
    {inside}
    nisa.nc_matmul(dst=p, stationary=s, moving=s{accumulate})
nl.fori_loop(0, {trips}, step)
{after}
"""
MAKE = "p = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)"
START = MAKE + "\nnisa.nc_matmul(dst=p, stationary=s, moving=s)"
STORE = "u = nl.ndarray((8, 8), dtype=nl.float32)\nnisa.tensor_copy(dst=u, src=p)"
STORE += "\nnisa.dma_copy(dst=o, src=u)"


@pytest.mark.parametrize(
    ("before", "accumulate", "trips", "codes"),
    [
        (MAKE, "", 4, ["NK214"]),
        (MAKE, "", 1, []),
        (START, "", 4, []),
        (MAKE, ", accumulate=False", 4, []),
        (MAKE, ", accumulate=True", 4, ["NK214"]),
        (START, ", accumulate=True", 4, []),
    ],
)
def test_matmul_in_a_loop_has_one_flag_for_all_iterations(
    before: str, accumulate: str, trips: int, codes: list[str]
) -> None:
    text = MATMUL.format(
        before=before, inside="pass", accumulate=accumulate, trips=trips, after=STORE
    )
    assert place(text, (8, 8)).codes == codes


def test_matmul_onto_a_tile_of_the_body_starts_anew_each_time() -> None:
    store = STORE.replace("\n", "\n    ")
    text = MATMUL.format(before="", inside=MAKE, accumulate="", trips=4, after="")
    text = text.replace("moving=s)", f"moving=s)\n    {store}")
    assert place(text, (8, 8)).codes == []
