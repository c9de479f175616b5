"""Collectives: each against NumPy, who meets whom, and what waits for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError
from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.collective import COLLECTIVE
from nki_agent.isa.dtype import find_dtype
from nki_agent.nki.current.tracing import ArgumentSpec
from nki_agent.program.records import Access
from nki_agent.program.validate import check_program
from nki_agent.sim.collective import COLLECTIVES
from nki_agent.sim.execute import Executable, RunResult, compile_program
from tests.kernels import HEAD, traced
from tests.sim.build import Array

BF16 = np.dtype(ml_dtypes.bfloat16)
RING = "collective_permute_implicit_current_processing_rank_id"
Arrays = Sequence[Mapping[str, Array]]
Table = list[list[int]]


def source(text: str, names: Sequence[str], cores: int = 1) -> str:
    lines = "\n".join("    " + line for line in text.strip("\n").split("\n"))
    head = f"{HEAD}import nki.collectives as ncc\n\n\n@nki.jit\ndef kernel({', '.join(names)}):\n"
    grid = f"\n\ngrid = ({cores},)\n" if cores > 1 else ""
    return f"{head}{lines}\n{grid}"


def compiled(text: str, arrays: Arrays, *, cores: int = 1, ranks: int | None = None) -> Executable:
    specs = []
    for name, array in arrays[0].items():
        dtype = find_dtype(array.dtype)
        assert dtype is not None
        specs.append(ArgumentSpec(name, array.shape, dtype, access=Access.UPDATE))
    program = traced(source(text, list(arrays[0]), cores), specs)
    chip = load_chip(Target.TRN2)
    findings = check_program(program, chip)
    assert findings == [], [str(f) for f in findings]
    return compile_program(program, chip, ranks=len(arrays) if ranks is None else ranks)


def run(text: str, arrays: Arrays, *, cores: int = 1) -> tuple[RunResult, ...]:
    return compiled(text, arrays, cores=cores).run_ranks(arrays)


def outputs(text: str, arrays: Arrays, *, cores: int = 1) -> list[Array]:
    results = run(text, arrays, cores=cores)
    assert all(result.findings == () for result in results), [r.findings for r in results]
    return [result.outputs[0] for result in results]


def failed(text: str, arrays: Arrays, *, cores: int = 1) -> Diagnostic:
    executable = compiled(text, arrays, cores=cores)
    with pytest.raises(KernelError) as caught:
        executable.run_ranks(arrays)
    return caught.value.diagnostic


def line_of(text: str, part: str, names: Sequence[str] = ("x",)) -> int:
    whole = source(text, names)
    return whole[: whole.index(part)].count("\n") + 1


def normal(ranks: int, *shape: int, dtype: np.dtype | type = np.float32) -> list[dict[str, Array]]:
    rng = rng_for(0, "ranks")
    return [{"x": rng.standard_normal(shape).astype(dtype)} for _ in range(ranks)]


def values(arrays: Arrays, name: str = "x") -> list[Array]:
    return [a[name].astype(np.float32) for a in arrays]


def out_of(
    *shape: int, name: str = "out", dtype: str = "x.dtype", buffer: str = "shared_hbm"
) -> str:
    return f"{name} = nl.ndarray({shape}, dtype={dtype}, buffer=nl.{buffer})\n"


def group(ranks: int) -> str:
    return f"ncc.ReplicaGroup([{list(range(ranks))}])"


def same(found: Sequence[Array], wanted: Sequence[Array]) -> None:
    assert len(found) == len(wanted)
    for rank, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert got.astype(np.float32).tolist() == want.astype(np.float32).tolist(), rank


def test_every_collective_is_simulated() -> None:
    apart = {"rank_id", RING}
    assert COLLECTIVES.keys() == {d.name for d in COLLECTIVE} - apart


# Each against NumPy.

OPS = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16])
def test_all_reduce_rounds_once_in_the_order_of_ranks(ranks: int, op: str, dtype: np.dtype) -> None:
    arrays = normal(ranks, 8, 6, dtype=dtype)
    text = out_of(8, 6) + f"ncc.all_reduce([x], [out], {group(ranks)}, nl.{op})\nreturn out"
    total = values(arrays)[0]
    for other in values(arrays)[1:]:
        total = OPS[op](total, other)
    found = outputs(text, arrays)
    assert found[0].dtype == dtype
    same(found, [total.astype(dtype)] * ranks)


def test_the_list_gives_the_order_in_which_ranks_are_added() -> None:
    arrays = [{"x": np.full((1, 1), v, np.float32)} for v in (1.0, 2.0**25, -(2.0**25))]
    text = out_of(1, 1) + "ncc.all_reduce([x], [out], ncc.ReplicaGroup([{}]), nl.add)\nreturn out"
    same(outputs(text.format("[0, 1, 2]"), arrays), [np.zeros((1, 1))] * 3)
    same(outputs(text.format("[1, 2, 0]"), arrays), [np.ones((1, 1))] * 3)


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16, np.dtype(np.int32)])
@pytest.mark.parametrize("ranks", [2, 4])
def test_all_gather_lays_ranks_after_each_other(ranks: int, dtype: np.dtype) -> None:
    arrays = [{"x": a["x"] * 100} for a in normal(ranks, 3, 5)]
    arrays = [{"x": a["x"].astype(dtype)} for a in arrays]
    text = out_of(3 * ranks, 5) + f"ncc.all_gather([x], [out], {group(ranks)}, 0)\nreturn out"
    same(outputs(text, arrays), [np.concatenate([a["x"] for a in arrays])] * ranks)


@pytest.mark.parametrize("ranks", [2, 4])
def test_reduce_scatter_gives_each_rank_its_part(ranks: int) -> None:
    arrays = normal(ranks, 2 * ranks, 5)
    call = f"ncc.reduce_scatter([x], [out], {group(ranks)}, 0, nl.add)\nreturn out"
    total = values(arrays)[0].copy()
    for other in values(arrays)[1:]:
        total += other
    same(outputs(out_of(2, 5) + call, arrays), np.split(total, ranks))


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_to_all_is_a_transposition_of_parts(ranks: int) -> None:
    arrays = normal(ranks, 2 * ranks, 3)
    text = out_of(2 * ranks, 3) + f"ncc.all_to_all([x], [out], {group(ranks)}, 0)\nreturn out"
    parts = [np.split(a, ranks) for a in values(arrays)]
    same(outputs(text, arrays), [np.concatenate([p[to] for p in parts]) for to in range(ranks)])


def test_two_groups_meet_apart() -> None:
    arrays = normal(4, 2, 3)
    text = out_of(4, 3) + (
        "ncc.all_gather([x], [out], ncc.ReplicaGroup([[0, 1], [3, 2]]), 0)\nreturn out"
    )
    x = values(arrays)
    low, high = np.concatenate(x[:2]), np.concatenate([x[3], x[2]])
    same(outputs(text, arrays), [low, low, high, high])


def test_coalesced_lists_are_several_collectives_in_one() -> None:
    rng = rng_for(1, "coalesced")
    arrays = [
        {"x": rng.standard_normal((2, 3)).astype(np.float32), "y": np.full((4, 4), r, np.int32)}
        for r in range(2)
    ]
    text = (
        out_of(4, 3)
        + out_of(8, 4, name="more", dtype="y.dtype")
        + f"ncc.all_gather([x, y], [out, more], {group(2)}, 0)\nreturn out, more"
    )
    for result in run(text, arrays):
        for name, output in zip(("x", "y"), result.outputs, strict=True):
            assert output.tolist() == np.concatenate([a[name] for a in arrays]).tolist()


def test_a_reduction_in_place_reads_before_it_writes() -> None:
    arrays = normal(2, 2, 3)
    call = f"ncc.all_reduce([x], [x], {group(2)}, nl.add)\n"
    text = out_of(2, 3) + call + "nisa.dma_copy(out, x)\nreturn out"
    total = arrays[0]["x"] + arrays[1]["x"]
    results = run(text, arrays)
    same([r.outputs[0] for r in results], [total] * 2)
    same([r.updated["x"] for r in results], [total] * 2)


# Tiles in SBUF.

LOAD = "s = nl.load(x)\n"
SBUF = [
    ("all_reduce", (4, 6), "nl.add", lambda a: [a[0] + a[1]] * 2),
    ("all_gather", (8, 6), "0", lambda a: [np.concatenate(a)] * 2),
    ("all_gather", (4, 12), "1", lambda a: [np.concatenate(a, 1)] * 2),
    ("reduce_scatter", (2, 6), "0, nl.maximum", lambda a: list(np.split(np.maximum(*a), 2))),
]


@pytest.mark.parametrize(("name", "shape", "options", "want"), SBUF)
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16])
def test_tiles_in_sbuf_meet_too(name, shape, options, want, dtype: np.dtype) -> None:  # type: ignore[no-untyped-def]
    arrays = normal(2, 4, 6, dtype=dtype)
    text = (
        LOAD
        + out_of(*shape, name="t", buffer="sbuf")
        + out_of(*shape)
        + f"ncc.{name}([s], [t], {group(2)}, {options})\nnl.store(out, t)\nreturn out"
    )
    wanted = [w.astype(dtype) for w in want(values(arrays))]
    same(outputs(text, arrays), wanted)


# Permutes and rings.


def test_a_permute_follows_its_pairs_and_leaves_others_alone() -> None:
    arrays = normal(4, 2, 3)
    text = (
        out_of(2, 3)
        + "z = nl.zeros((2, 3), dtype=x.dtype, buffer=nl.sbuf)\nnl.store(out, z)\n"
        + "ncc.collective_permute([x], [out], [(0, 2), (2, 0), (0, 1)][:2] + [(1, 3)])\nreturn out"
    )
    x = values(arrays)
    same(outputs(text, arrays), [x[2], np.zeros((2, 3)), x[0], x[1]])


def test_a_rank_that_no_pair_names_does_not_wait() -> None:
    arrays = normal(3, 1, 2)
    text = out_of(1, 2) + (
        "nl.store(out, nl.load(x))\nncc.collective_permute([x], [out], [(2, 1)])\nreturn out"
    )
    x = values(arrays)
    same(outputs(text, arrays), [x[0], x[2], x[2]])


def test_what_no_rank_sends_is_poison_in_every_run() -> None:
    arrays = normal(2, 1, 2)
    text = out_of(1, 2) + "ncc.collective_permute([x], [out], [(0, 1)])\nreturn out"
    executable = compiled(text, arrays)
    for _ in range(2):
        results = executable.run_ranks(arrays)
        assert np.isnan(results[0].outputs[0]).all()
        assert results[1].outputs[0].tolist() == arrays[0]["x"].tolist()


def test_a_ring_sends_to_the_successor_on_every_channel() -> None:
    arrays = normal(4, 2, 3)
    text = (
        out_of(2, 3)
        + out_of(2, 3, name="more")
        + "ring = ncc.ReplicaGroup([[0, 2, 1, 3]])\n"
        + "ncc.collective_permute_implicit([[x], [x]], [[out], [more]], ring, [0, 1])\n"
        + "return out, more"
    )
    x = values(arrays)
    for channel in range(2):
        found = [r.outputs[channel] for r in run(text, arrays)]
        same(found, [x[3], x[2], x[0], x[1]])


def test_a_reducing_ring_sends_the_result() -> None:
    arrays = normal(2, 2, 3, dtype=BF16)
    text = out_of(2, 3) + (
        f"ncc.collective_permute_implicit_reduce([[x]], [[x]], [[out]], {group(2)}, nl.add)\n"
        "return out"
    )
    same(outputs(text, arrays), [2 * a for a in values(arrays)[::-1]])


STORE = """
tile = nl.ndarray((1, 1), dtype=nl.int32)
nisa.register_store(tile, {})
nl.store(out, tile)
return out
"""


def test_a_rank_knows_its_number_and_whose_data_a_ring_has_brought() -> None:
    arrays = normal(4, 1, 1)
    head = out_of(1, 1, dtype="nl.int32")
    same(outputs(head + STORE.format("ncc.rank_id()"), arrays), [np.array([[r]]) for r in range(4)])
    for step, want in enumerate(([0, 1, 2, 3], [3, 2, 0, 1], [1, 0, 3, 2])):
        call = f"ncc.{RING}({step}, ncc.ReplicaGroup([[0, 2, 1, 3]]))"
        same(outputs(head + STORE.format(call), arrays), [np.array([[w]]) for w in want])


RING_GATHER = """
ring = {group}
now = nl.ndarray((2, 3), dtype=x.dtype, buffer=nl.hbm)
then = nl.ndarray((2, 3), dtype=x.dtype, buffer=nl.hbm)
nisa.dma_copy(now, x)
for step in range({ranks}):
    rank = ncc.collective_permute_implicit_current_processing_rank_id(step, ring)
    offset = nisa.register_alloc(0)
    for _ in range(1):
        tile = nl.ndarray((1, 1), dtype=nl.int32)
        nisa.register_store(tile, rank)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2)
        nisa.register_load(offset, tile)
    place = out.ap([[3, 2], [1, 3]], scalar_offset=offset, indirect_dim=0)
    nisa.dma_copy(dst=place, src=now)
    if step + 1 < {ranks}:
        ncc.collective_permute_implicit([[now]], [[then]], ring)
        now, then = then, now
return out
"""


@settings(max_examples=8, deadline=None)
@given(st.permutations(range(4)), st.sampled_from([2, 3, 4]))
def test_a_ring_of_permutes_gathers_all(order: Sequence[int], ranks: int) -> None:
    arrays = normal(ranks, 2, 3)
    ring = f"ncc.ReplicaGroup([{[r for r in order if r < ranks]}])"
    text = out_of(2 * ranks, 3) + RING_GATHER.format(group=ring, ranks=ranks)
    direct = out_of(2 * ranks, 3) + f"ncc.all_gather([x], [out], {group(ranks)}, 0)\nreturn out"
    same(outputs(text, arrays), outputs(direct, arrays))


def test_collectives_go_round_in_run_time_loops_at_run_time_offsets() -> None:
    arrays = normal(2, 4, 3)
    text = (
        out_of(4, 3)
        + "def step(i):\n"
        + "    src = x.ap([[3, 1], [1, 3]], scalar_offset=i, indirect_dim=0)\n"
        + "    dst = out.ap([[3, 1], [1, 3]], scalar_offset=i, indirect_dim=0)\n"
        + f"    ncc.all_reduce([src], [dst], {group(2)}, nl.add)\n"
        + "nl.fori_loop(0, 4, step)\nreturn out"
    )
    same(outputs(text, arrays), [arrays[0]["x"] + arrays[1]["x"]] * 2)


# Counted forms.


def counted(send: Array, meta: Sequence[Table]) -> list[dict[str, Array]]:
    return [
        {"x": send + 100 * rank, "meta": np.asarray(table, np.uint32)}
        for rank, table in enumerate(meta)
    ]


V = "z = nl.zeros((1, {n}), dtype=x.dtype, buffer=nl.sbuf)\nnl.store(out, z)\n"


def test_all_gather_v_gives_each_rank_a_slot() -> None:
    send = np.arange(6, dtype=np.float32).reshape(1, 6)
    arrays = counted(send, [[[2, 9], [1, 9], [7, 7]], [[3, 9], [0, 9], [7, 7]]])
    text = (
        out_of(1, 8) + V.format(n=8) + f"ncc.all_gather_v([x], [out], {group(2)}, meta)\nreturn out"
    )
    results = run(text, arrays)
    for result in results:
        assert result.outputs[0].tolist() == [[1, 2, 0, 0, 100, 101, 102, 0]]
        assert result.updated["meta"][2].tolist() == [2, 3]
    known = text.replace("meta)", "meta, recv_counts_known=True)")
    assert run(known, arrays)[0].updated["meta"].tolist() == arrays[0]["meta"].tolist()


def test_all_to_all_v_moves_each_pair_s_chunk() -> None:
    send = np.arange(6, dtype=np.float32).reshape(1, 6)
    tables = [[[1, 2], [0, 4], [0, 0]], [[3, 0], [1, 9], [0, 0]]]
    text = out_of(1, 8) + V.format(n=8) + "ncc.all_to_all_v([x], [out], {}, meta{})\nreturn out"
    results = run(text.format(group(2), ""), counted(send, tables))
    assert results[0].outputs[0].tolist() == [[0, 0, 0, 0, 101, 102, 103, 0]]
    assert results[1].outputs[0].tolist() == [[4, 5, 0, 0, 0, 0, 0, 0]]
    assert [r.updated["meta"][2].tolist() for r in results] == [[1, 3], [2, 0]]
    placed = [[*tables[0], [7, 2]], [*tables[1], [0, 3]]]
    results = run(text.format(group(2), ", has_rdispls=True"), counted(send, placed))
    assert results[0].outputs[0].tolist() == [[0, 0, 101, 102, 103, 0, 0, 0]]
    assert results[1].outputs[0].tolist() == [[4, 5, 0, 0, 0, 0, 0, 0]]


def test_metadata_may_lie_in_sbuf() -> None:
    send = np.arange(4, dtype=np.float32).reshape(1, 4)
    arrays = counted(send, [[[1, 0], [3, 0], [0, 0]], [[2, 0], [0, 0], [0, 0]]])
    text = (
        out_of(1, 4)
        + V.format(n=4)
        + "m = nl.ndarray((1, 3, 2), dtype=nl.uint32, buffer=nl.sbuf)\n"
        + "nisa.dma_copy(m, meta.reshape((1, 3, 2)))\n"
        + f"ncc.all_gather_v([x], [out], {group(2)}, m)\n"
        + "nisa.dma_copy(meta.reshape((1, 3, 2)), m)\nreturn out"
    )
    for result in run(text, arrays):
        assert result.outputs[0].tolist() == [[3, 0, 100, 101]]
        assert result.updated["meta"][2].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ([[5, 0], [2, 0], [0, 0]], "", "2 to 7"),
        ([[3, 0], [0, 0], [0, 0]], "", "0 to 2, the slot"),
        ([[2, 0], [0, 0], [0, 0], [3, 0]], ", has_rdispls=True", "3 to 5"),
    ],
)
def test_counts_that_reach_outside_are_refused(table: Table, options: str, words: str) -> None:
    send = np.arange(6, dtype=np.float32).reshape(1, 6)
    call = f"ncc.all_gather_v([x], [out], {group(2)}, meta{options})"
    text = f"{out_of(1, 4)}{call}\nreturn out"
    finding = failed(text, counted(send, [table, table]))
    assert finding.code == "NK202"
    assert words in str(finding)
    assert finding.where[-1].line == line_of(text, call, ("x", "meta"))


# Who does not come.

REDUCE = "ncc.all_reduce([x], [out], {}, nl.add)"


def test_a_rank_that_does_not_run_is_named() -> None:
    text = out_of(1, 2) + REDUCE.format(group(2)) + "\nreturn out"
    executable = compiled(text, normal(1, 1, 2))
    with pytest.raises(KernelError) as caught:
        executable.run(normal(1, 1, 2)[0])
    finding = caught.value.diagnostic
    assert finding.code == "NK403"
    assert "rank 1 of its ranks does not run" in finding.what
    assert finding.where[-1].line == line_of(text, "ncc.all_reduce")


def test_a_list_of_one_rank_is_fine() -> None:
    (x,) = arrays = normal(1, 1, 2)
    text = out_of(1, 2) + REDUCE.format(group(1)) + "\nreturn out"
    same(outputs(text, arrays), [x["x"]])


@pytest.mark.parametrize("call", [REDUCE, STORE.replace("{}", f"ncc.{RING}(0, {{}})")])
def test_a_rank_in_no_list_is_an_error(call: str) -> None:
    text = out_of(1, 2) + call.format(group(2))
    if "return" not in text:
        text += "\nreturn out"
    elif "store" in text:
        text = text.replace("(1, 2), dtype=x.dtype", "(1, 1), dtype=nl.int32")
    finding = failed(text, normal(3, 1, 2))
    assert finding.code == "NK308"
    assert "rank 2" in str(finding)
    assert finding.where


def test_ranks_that_loop_unequally_wait_for_ever() -> None:
    call, other = REDUCE.format(group(2)), f"ncc.all_gather([x], [wide], {group(2)}, 0)"
    text = (
        out_of(1, 2)
        + out_of(2, 2, name="wide")
        + f"def step(i):\n    {call}\n"
        + "nl.fori_loop(0, ncc.rank_id(), step)\n{}\nreturn out"
    )
    finding = failed(text.format(""), normal(2, 1, 2))
    assert finding.code == "NK403"
    assert "rank 1 waits for ever in `all_reduce`, while rank 0 has come to its end" in finding.what
    assert finding.where[-1].line == line_of(text, call)
    finding = failed(text.format(other), normal(2, 1, 2))
    assert finding.code == "NK403"
    assert "rank 0 waits for ever in `all_gather`" in finding.what
    assert f"rank 1 waits in `all_reduce` at kernel.py:{line_of(text, call)}" in finding.what


def test_arguments_for_another_number_of_ranks_are_refused() -> None:
    text = out_of(1, 2) + REDUCE.format(group(2)) + "\nreturn out"
    executable = compiled(text, normal(2, 1, 2))
    with pytest.raises(ValueError, match="2 ranks"):
        executable.run_ranks(normal(3, 1, 2))


def test_ranks_keep_nothing_of_an_earlier_run() -> None:
    text = out_of(1, 2) + REDUCE.format(group(2)) + "\nreturn out"
    first, second = normal(2, 1, 2), [{"x": np.ones((1, 2), np.float32)}] * 2
    executable = compiled(text, first)
    before = executable.run_ranks(first)[0].outputs[0]
    assert executable.run_ranks(second)[1].outputs[0].tolist() == [[2, 2]]
    assert executable.run_ranks(first)[0].outputs[0].tolist() == before.tolist()


# Two cores a rank.


def test_both_cores_may_carry_out_one_collective() -> None:
    arrays = normal(2, 2, 3)
    text = out_of(2, 3) + REDUCE.format(group(2)) + "\nreturn out"
    same(outputs(text, arrays, cores=2), [arrays[0]["x"] + arrays[1]["x"]] * 2)


HALF = """
core = nl.program_id(0)
part = nl.ndarray((2, 3), dtype=x.dtype, buffer=nl.shared_hbm, name="part")
tile = nl.load(x[core:core + 1, :])
nisa.dma_copy(part[core:core + 1, :], tile)
{barrier}
if core == 0:
    ncc.all_reduce([part], [out], {group}, nl.add)
return out
"""


def test_a_collective_of_one_core_needs_a_barrier_for_what_the_other_wrote() -> None:
    arrays = normal(2, 2, 3)
    wanted = [arrays[0]["x"] + arrays[1]["x"]] * 2
    barrier = "nisa.core_barrier(data=part, cores=(0, 1))"
    text = out_of(2, 3) + HALF.format(barrier=barrier, group=group(2))
    same(outputs(text, arrays, cores=2), wanted)
    text = out_of(2, 3) + HALF.format(barrier="", group=group(2))
    assert {f.code for r in run(text, arrays, cores=2) for f in r.findings} == {"NK402"}


def test_cores_that_wait_in_several_ranks_name_the_rank() -> None:
    arrays = normal(2, 2, 3)
    text = out_of(2, 3) + (
        "if nl.program_id(0) == 0:\n    nisa.core_barrier(data=out, cores=(0, 1))\nreturn out"
    )
    finding = failed(text, arrays, cores=2)
    assert finding.what.startswith("rank 0: core 0 waits for ever in `core_barrier`")


def test_a_core_that_leaves_out_a_collective_is_named() -> None:
    arrays = normal(2, 2, 3)
    text = out_of(2, 3) + (
        f"def step(i):\n    {REDUCE.format(group(2))}\n"
        "if nl.program_id(0) == 0:\n    nl.fori_loop(0, ncc.rank_id(), step)\nreturn out"
    )
    finding = failed(text, arrays, cores=2)
    assert "core 0 of rank 1 waits for ever in `all_reduce`" in finding.what
