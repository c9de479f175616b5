"""Addresses, liveness and capacity."""

from nki_agent.base.diagnostic import Severity
from nki_agent.chip.spec import Target, load_chip
from tests.memory.traced import HEAD_LINES, place_body

TRN2 = load_chip(Target.TRN2)


def test_live_tensors_share_no_bytes_and_dead_ones_are_taken_over() -> None:
    rows = 100
    placed = place_body(
        f"""
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for i in range({rows}):
            t = nl.ndarray((128, 2048), dtype=nl.float32, name=f"x{{i}}")
            nisa.dma_copy(dst=t, src=a[i])
            y = nl.ndarray((128, 2048), dtype=nl.float32, name=f"y{{i}}")
            nisa.tensor_scalar(dst=y, data=t, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=o[i], src=y)
        return o
        """,
        (rows, 128, 2048),
    )
    assert placed.codes == []
    addresses = [placed.address(f"{n}{i}") for i in range(rows) for n in "xy"]
    tile_bytes = 2048 * 4
    places = TRN2.sbuf_usable_partition_bytes // tile_bytes
    # Going round: a place is used again only after every other place was.
    assert addresses[:places] == [i * tile_bytes for i in range(places)]
    assert addresses[places] == 0
    assert placed.placement.reuses[placed.id("y12")] == (placed.id("x0"),)
    assert placed.placement.peak_sbuf_bytes == 2 * tile_bytes


def test_tensor_is_live_from_first_to_last_access() -> None:
    placed = place_body(
        """
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        unused = nl.ndarray((128, 8), dtype=nl.float32, name="unused")
        t = nl.ndarray((128, 8), dtype=nl.float32, name="t")
        nisa.dma_copy(dst=t, src=a)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=o, src=t)
        return o
        """,
        (128, 8),
    )
    t, unused = placed.id("t"), placed.id("unused")
    assert (placed.placement.first_use[t], placed.placement.last_use[t]) == (0, 2)
    assert (placed.placement.first_use[unused], placed.placement.addresses[unused]) == (-1, -1)


def test_sbuf_over_capacity_names_the_line_and_the_largest_tensors() -> None:
    placed = place_body(
        """
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        big = nl.ndarray((128, 53000), dtype=nl.float32, name="big")
        nisa.memset(dst=big, value=0.0)
        small = nl.ndarray((128, 512), dtype=nl.float32, name="small")
        nisa.dma_copy(dst=small, src=a)
        nisa.tensor_tensor(dst=small, data1=small, data2=big[:, 0:512], op=nl.add)
        nisa.dma_copy(dst=o, src=small)
        return o
        """,
        (128, 512),
    )
    (finding,) = placed.findings
    assert finding.code == "NK205"
    assert finding.where[-1].line == HEAD_LINES + 6
    assert finding.limit == str(TRN2.sbuf_usable_partition_bytes)
    assert finding.got == f"{53000 * 4 + 512 * 4} bytes of each partition"
    assert f"`big` [128, 53000] float32, 212000 bytes (kernel.py:{HEAD_LINES + 3})" in finding.hint


def test_sbuf_may_be_filled_to_the_last_byte() -> None:
    columns = TRN2.sbuf_usable_partition_bytes // 4
    placed = place_body(
        f"""
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((128, {columns}), dtype=nl.float32)
        nisa.dma_copy(dst=t, src=a)
        nisa.dma_copy(dst=o, src=t)
        return o
        """,
        (128, columns),
    )
    assert placed.codes == []
    assert placed.placement.peak_sbuf_bytes == TRN2.sbuf_usable_partition_bytes


MATMUL_TILES = """
    o = nl.ndarray(({tiles}, 16, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray((64, 16), dtype=nl.float32)
    y = nl.ndarray((64, 8), dtype=nl.float32)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    tiles = []
    for i in range({tiles}):
        p = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.psum, name=f"p{{i}}")
        nisa.nc_matmul(dst=p, stationary=x, moving=y)
        tiles.append(p)
    for i in range({tiles}):
        s = nl.ndarray((16, 8), dtype=nl.float32)
        nisa.tensor_copy(dst=s, src=tiles[i])
        nisa.dma_copy(dst=o[i], src=s)
    return o
"""


def test_each_psum_tensor_has_a_bank_of_its_own() -> None:
    placed = place_body(MATMUL_TILES.format(tiles=8), (64, 16), (64, 8))
    assert placed.codes == []
    banks = [placed.address(f"p{i}") // TRN2.psum_bank_bytes for i in range(8)]
    assert banks == list(range(8))
    assert placed.placement.peak_psum_banks == 8


def test_more_live_psum_tensors_than_banks_are_refused() -> None:
    placed = place_body(MATMUL_TILES.format(tiles=9), (64, 16), (64, 8))
    assert placed.codes == ["NK206"]
    assert placed.findings[0].got == "9 banks"
    assert placed.findings[0].limit == "8"


def test_psum_tensor_larger_than_a_bank_spans_whole_banks() -> None:
    placed = place_body(
        """
        o = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
        x = nl.ndarray((128, 64), dtype=nl.float32)
        y = nl.ndarray((128, 512), dtype=nl.float32)
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=y, src=b)
        one = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.psum, name="one")
        nisa.nc_matmul(dst=one, stationary=x, moving=y[:, 0:8])
        p = nl.ndarray((64, 1024), dtype=nl.float32, buffer=nl.psum, name="p")
        nisa.nc_matmul(dst=p[:, 0:512], stationary=x, moving=y)
        nisa.nc_matmul(dst=p[:, 512:1024], stationary=x, moving=y)
        s = nl.ndarray((64, 1024), dtype=nl.float32)
        nisa.tensor_copy(dst=s, src=p)
        nisa.tensor_copy(dst=s[:, 0:8], src=one)
        nisa.dma_copy(dst=o, src=s)
        return o
        """,
        (128, 64),
        (128, 512),
    )
    assert placed.codes == []
    assert placed.address("p") == TRN2.psum_bank_bytes
    assert placed.placement.peak_psum_banks == 3


def test_given_address_is_kept_and_others_go_around_it() -> None:
    placed = place_body(
        """
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((128, 512), dtype=nl.float32, name="t")
        u = nl.ndarray((128, 512), dtype=nl.float32, address=(0, 64), name="u")
        nisa.dma_copy(dst=t, src=a)
        nisa.dma_copy(dst=u, src=a)
        nisa.tensor_tensor(dst=t, data1=t, data2=u, op=nl.add)
        nisa.dma_copy(dst=o, src=t)
        return o
        """,
        (128, 512),
    )
    assert placed.codes == []
    assert placed.address("u") == 64
    assert placed.address("t") >= 64 + 2048


def test_hand_made_reuse_of_an_address_is_an_edge_for_the_cost_model() -> None:
    placed = place_body(
        """
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for i in range(4):
            t = nl.ndarray((128, 8), dtype=nl.float32, address=(0, (i % 2) * 32), name=f"x{i}")
            nisa.dma_copy(dst=t, src=a[i])
            nisa.dma_copy(dst=o[i], src=t)
        return o
        """,
        (4, 128, 8),
    )
    assert placed.codes == []
    assert placed.placement.reuses[placed.id("x2")] == (placed.id("x0"),)
    assert placed.placement.reuses[placed.id("x3")] == (placed.id("x1"),)


def test_same_fault_in_a_loop_is_one_finding() -> None:
    placed = place_body(
        """
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        for i in range(10):
            t = nl.ndarray((128, 8), dtype=nl.float32)
            nisa.dma_copy(dst=o[i], src=t)
        return o
        """,
        (10, 128, 8),
    )
    assert placed.codes == ["NK207"]
    assert placed.findings[0].severity is Severity.ERROR


def test_tensor_that_no_gap_holds_is_refused_though_the_total_fits() -> None:
    placed = place_body(
        """
        o = nl.ndarray((8, 8), dtype=a.dtype, buffer=nl.shared_hbm)
        wall = nl.ndarray((8, 8), dtype=nl.float32, address=(0, 100000))
        wide = nl.ndarray((8, 40000), dtype=nl.float32)
        nisa.dma_copy(dst=wall, src=a)
        nisa.memset(dst=wide, value=0.0)
        nisa.tensor_tensor(dst=wall, data1=wall, data2=wide[:, 0:8], op=nl.add)
        nisa.dma_copy(dst=o, src=wall)
        return o
        """,
        (8, 8),
    )
    assert placed.codes == ["NK205"]
    assert placed.findings[0].got == "in pieces"


def test_tensor_whose_pieces_are_too_many_is_not_followed_and_says_so() -> None:
    placed = place_body(
        """
        o = nl.ndarray((8192, 16384), dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=o[0:1, 1:2], src=a)
        return o
        """,
        (1, 1),
    )
    assert placed.codes == ["NK114"]
    assert "[8192, 16384]" in placed.findings[0].what
