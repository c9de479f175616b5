"""NK209 and NK215: addresses that the kernel gives."""

import pytest

from nki_agent.chip.spec import Target, load_chip
from tests.memory.traced import Placed, place_body

TRN2 = load_chip(Target.TRN2)


def place_two(first: str, second: str, *, between: str = "") -> Placed:
    return place_body(
        f"""
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray((32, 8), dtype=nl.float32, address={first})
        u = nl.ndarray((32, 8), dtype=nl.float32, address={second})
        nisa.dma_copy(dst=t, src=a)
        {between}
        nisa.dma_copy(dst=u, src=a)
        nisa.dma_copy(dst=o, src={"u" if between else "t"})
        nisa.dma_copy(dst=o, src=u)
        return o
        """,
        (32, 8),
    )


def test_live_tensors_that_share_bytes_are_refused() -> None:
    placed = place_two("(0, 0)", "(0, 16)")
    assert placed.codes == ["NK209"]
    assert "bytes 16..47" in placed.findings[0].what
    assert "bytes 0..31" in placed.findings[0].what


@pytest.mark.parametrize("second", ["(0, 32)", "(32, 16)"])
def test_neighbours_in_bytes_or_partitions_are_good(second: str) -> None:
    assert place_two("(0, 0)", second).codes == []


def test_address_may_be_used_again_after_the_last_use() -> None:
    assert place_two("(0, 0)", "(0, 16)", between="nisa.dma_copy(dst=o, src=t)").codes == []


def test_tensor_of_all_partitions_clashes_with_one_in_any_quadrant() -> None:
    body = """
    o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((32, 8), dtype=nl.float32, address=({partition}, 16))
    u = nl.ndarray((128, 8), dtype=nl.float32, address=(0, {byte}))
    nisa.dma_copy(dst=t, src=a)
    nisa.memset(dst=u, value=1.0)
    nisa.dma_copy(dst=o, src=t)
    return o
    """
    for partition in (0, 32, 64, 96):
        for byte in (0, 16, 44):
            placed = place_body(body.format(partition=partition, byte=byte), (32, 8))
            assert placed.codes == ["NK209"]
        assert place_body(body.format(partition=partition, byte=48), (32, 8)).codes == []


@pytest.mark.parametrize(
    ("declaration", "part"),
    [
        (f"(32, 8), nl.float32, address=(0, {TRN2.sbuf_usable_partition_bytes - 16})", "bytes"),
        ("(32, 8), nl.float32, address=(0, 6)", "multiple of 4"),
        ("(32, 8), nl.float32, address=(0, -4)", "0.."),
        ("(32, 8), nl.float32, address=(-32, 0)", "0 or 32 or 64 or 96"),
        ("(32, 8), nl.float32, address=(16, 0)", "0 or 32 or 64 or 96"),
        ("(64, 8), nl.float32, address=(32, 0)", "0 or 64"),
        ("(32, 8), nl.float32, nl.psum, address=(0, 512)", "multiple of 2048"),
        ("(32, 8), nl.float32, nl.psum, address=(0, 16384)", "0..16383"),
    ],
)
def test_address_that_the_memory_does_not_have_is_refused(declaration: str, part: str) -> None:
    placed = place_body(
        f"""
        o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray({declaration})
        nisa.memset(dst=t, value=1.0)
        nisa.dma_copy(dst=o, src=a)
        return o
        """,
        (8, 8),
    )
    assert placed.codes == ["NK215"]
    assert part in str(placed.findings[0])
