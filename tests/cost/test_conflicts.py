"""Views near each other against every pair looked at."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from nki_agent.cost import conflicts, pairs
from nki_agent.cost.conflicts import UNTRACKED, Conflicts, find_conflicts
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.isa.signature import Operand, Pattern, Signature
from nki_agent.program.overlap import find_form, is_overlapping
from nki_agent.program.records import Instruction

Access = tuple[int, Pattern, int]
SOURCE = 99
WORD = Pattern(None, ((4, 1),))


def copy_onto(accesses: list[Access]) -> tuple[list[Instruction], list[Signature]]:
    """A program of copies onto the accesses, from a tensor that nothing writes."""
    patterns = list(dict.fromkeys(pattern for _, pattern, _ in accesses))
    signatures = [
        Signature(
            "dma_copy",
            (),
            None,
            (
                Operand("dst", Memory.SBUF, DType.FLOAT32, pattern),
                Operand("src", Memory.HBM, DType.FLOAT32, WORD),
            ),
        )
        for pattern in patterns
    ]
    body = [
        Instruction(patterns.index(pattern), (tensor, SOURCE), (offset, 0), (), 0)
        for tensor, pattern, offset in accesses
    ]
    return body, signatures


def near(found: Conflicts, one: int, two: int) -> bool:
    return found.views[2 * two] in found.near[found.views[2 * one]]


def check(accesses: list[Access]) -> None:
    body, signatures = copy_onto(accesses)
    found = find_conflicts(body, signatures)
    forms = [find_form(signatures[node.signature].operands[0]) for node in body]
    assert set(found.views[1::2]) == {UNTRACKED}
    for one, two in product(range(len(accesses)), repeat=2):
        overlap = accesses[one][0] == accesses[two][0] and is_overlapping(
            forms[one],
            forms[two],
            first_offset=accesses[one][2],
            second_offset=accesses[two][2],
        )
        assert near(found, one, two) == overlap, (accesses[one], accesses[two])


axes = st.lists(
    st.tuples(st.integers(-6, 6).map(lambda n: 4 * n), st.integers(1, 4)), max_size=3
).map(tuple)
accesses = st.lists(
    st.tuples(
        st.integers(0, 2),
        axes.map(lambda free: Pattern(None, free)),
        st.integers(60, 80).map(lambda n: 4 * n),
    ),
    min_size=1,
    max_size=12,
)


@given(accesses)
def test_views_are_near_when_they_share_a_byte(accesses: list[Access]) -> None:
    check(accesses)


def grid(rows: int, columns: int, *, tile: tuple[int, int], extra: list[Access]) -> list[Access]:
    pitch = 4 * columns
    cut = [
        (
            0,
            Pattern(None, ((pitch, min(tile[0], rows - r)), (4, min(tile[1], columns - c)))),
            r * pitch + 4 * c,
        )
        for r in range(0, rows, tile[0])
        for c in range(0, columns, tile[1])
    ]
    return cut + extra


def test_a_dense_grid_of_ragged_tiles_has_no_neighbours() -> None:
    pitch = 4 * 70
    whole = (0, Pattern(None, ((pitch, 30), (4, 70))), 0)
    stripe = (0, Pattern(None, ((pitch, 30), (4, 3))), 4)
    cut = grid(30, 70, tile=(8, 2), extra=[whole, stripe])
    assert len(cut) > 8 * 16
    check(cut)


def test_a_grid_is_tried_where_byte_ranges_cross(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(pairs, "CROSSINGS_MIN", 1)
    monkeypatch.setattr(pairs, "CROSSINGS_PER_VIEW", 0)
    odd = (0, Pattern(None, ((4 * 40, 6), (8, 5))), 4 * 3)
    check(grid(24, 40, tile=(5, 4), extra=[odd]))


def test_tiles_on_different_partitions_do_not_meet() -> None:
    upper, lower = (Pattern((start, 1, 64), ((4, 8),)) for start in (0, 64))
    check([(0, upper, 0), (0, lower, 0), (0, upper, 16)])


def test_a_grid_that_saves_nothing_is_left(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(pairs, "CROSSINGS_MIN", 0)
    monkeypatch.setattr(pairs, "CROSSINGS_PER_VIEW", 0)
    windows = [(0, Pattern(None, ((80, 3), (4, 8))), 4 * n) for n in range(12)]
    runs = [(1, Pattern(None, ((4, 8),)), 4 * n) for n in range(12)]
    check(windows + runs)


def test_too_many_candidates_make_a_tensor_one_view(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(pairs, "PAIRS_MAX", 4)
    cut = [(0, Pattern(None, ((4, 8),)), 4 * n) for n in range(8)]
    apart = [(1, Pattern(None, ((4, 8),)), 32 * n) for n in range(8)]
    found = find_conflicts(*copy_onto(cut + apart))
    assert near(found, 0, 7)
    assert not near(found, 8, 9)


def test_too_many_visits_make_a_tensor_one_view(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(conflicts, "VISITS_PER_ACCESS", 2)
    cut = [(0, Pattern(None, ((4, 8),)), 4 * n) for n in range(8)]
    found = find_conflicts(*copy_onto(cut))
    assert len(set(found.views[::2])) == 1


def test_too_many_strided_positions_count_as_overlap(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(conflicts, "EXACT_MAX", 0)
    comb = Pattern(None, ((64, 2), (16, 2), (4, 1)))
    found = find_conflicts(*copy_onto([(0, comb, 0), (0, comb, 8)]))
    assert near(found, 0, 1)
