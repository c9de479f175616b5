"""Searches for eight values."""

import numpy as np
import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.isa.dtype import DType
from tests.sim.build import Array, Builder, simulate

F32 = DType.FLOAT32


def whole(*shape: int, high: int = 6) -> Array:
    return rng_for(0, "search", high).integers(0, high, shape).astype(np.float32)


def find(row: list[float], values: list[float], slots: list[int], missing: int) -> list[int]:
    """Positions of the values, slots served in this order."""
    taken: set[int] = set()
    found = [missing] * len(values)
    for slot in slots:
        for position, value in enumerate(row):
            if value == values[slot] and position not in taken:
                taken.add(position)
                found[slot] = position
                break
    return found


@pytest.mark.parametrize("size", [8, 40])
def test_max8_gives_the_largest_in_descending_order(size: int) -> None:
    values = whole(16, size, high=50)
    got = simulate("max8", ((16, 8), F32), {"src": values})
    assert got.tolist() == np.sort(values, 1)[:, ::-1][:, :8].tolist()


@pytest.mark.parametrize("dtype", [DType.UINT16, DType.UINT32])
def test_find_index8_gives_successive_matches_to_equal_values(dtype: DType) -> None:
    data, values = whole(32, 12), whole(32, 8, high=7)
    got = simulate("nc_find_index8", ((32, 8), dtype), {"data": data, "vals": values})
    missing = int(np.iinfo(dtype.numpy_dtype).max)
    wanted = [
        find(row, eight, list(range(8)), missing)
        for row, eight in zip(data.tolist(), values.tolist(), strict=True)
    ]
    assert got.tolist() == wanted


def test_match_replace8_serves_the_last_slot_first() -> None:
    data, values = whole(32, 12), whole(32, 8, high=7)
    builder = Builder()
    dst, index = builder.tile((32, 12)), builder.tile((32, 8), DType.UINT32)
    builder.add(
        "nc_match_replace8",
        {
            "dst": dst,
            "data": builder.load("x", data),
            "vals": builder.load("v", values),
            "imm": -1.0,
            "dst_idx": index,
        },
    )
    builder.store(dst)
    builder.store(index)
    tile, positions = builder.outputs()
    for row, eight, replaced, found in zip(
        data.tolist(), values.tolist(), tile.tolist(), positions.tolist(), strict=True
    ):
        wanted = find(row, eight, list(reversed(range(8))), 2**32 - 1)
        assert found == wanted
        hit = set(wanted)
        assert replaced == [-1.0 if i in hit else value for i, value in enumerate(row)]


def test_match_replace8_needs_no_index_tile() -> None:
    data, values = whole(4, 12), whole(4, 8, high=7)
    got = simulate("nc_match_replace8", ((4, 12), F32), {"data": data, "vals": values, "imm": 9.0})
    assert bool(((got == data) | (got == 9)).all())
