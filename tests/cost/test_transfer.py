"""Facts of one DMA: descriptors, engines, time."""

import pytest

from nki_agent.chip.spec import ChipSpec, Target, load_chip
from nki_agent.cost.transfer import Transfer, plan_transfer
from nki_agent.isa.declaration import Call
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory
from nki_agent.isa.signature import Operand, Pattern, Signature
from nki_agent.isa.table import TABLE

TRN2 = load_chip(Target.TRN2)
SETTINGS = {"dge_mode": "unknown", "priority": None, "oob_mode": "error", "axes": None}


def tile(partitions: int, elems: int, *, start: int = 0, dtype: DType = DType.FLOAT32) -> Operand:
    free = ((dtype.itemsize, elems),)
    return Operand("", Memory.SBUF, dtype, Pattern((start, 1, partitions), free))


def rows(count: int, elems: int, *, pitch: int, dtype: DType = DType.FLOAT32) -> Operand:
    size = dtype.itemsize
    return Operand("", Memory.HBM, dtype, Pattern(None, ((pitch * size, count), (size, elems))))


def plan(
    dst: Operand, src: Operand, *, op: str = "dma_copy", chip: ChipSpec = TRN2, **settings: str
) -> Transfer:
    attributes = tuple(
        (p.name, (SETTINGS | settings)[p.name]) for p in TABLE[op].attribute_parameters
    )
    operands = (
        Operand("dst", dst.memory, dst.dtype, dst.pattern),
        Operand("src", src.memory, src.dtype, src.pattern),
    )
    return plan_transfer(Call(TABLE[op], Signature(op, attributes, None, operands), chip))


def test_each_partition_of_a_tile_is_a_descriptor() -> None:
    transfer = plan(tile(128, 512), rows(128, 512, pitch=512))
    assert (transfer.descriptors, transfer.descriptor_bytes) == (128, 2048)
    assert transfer.num_engines == 16
    assert (transfer.read_bytes, transfer.written_bytes) == (128 * 2048, 0)


def test_a_strided_side_splits_descriptors_to_elements() -> None:
    column = Operand("", Memory.HBM, DType.FLOAT32, Pattern(None, ((4, 128), (512, 64))))
    transfer = plan(tile(128, 64), column)
    assert (transfer.descriptors, transfer.descriptor_bytes) == (128 * 64, 4)


def test_runs_of_unequal_length_are_cut_at_both_ends() -> None:
    three_rows = Operand("", Memory.HBM, DType.FLOAT32, Pattern(None, ((64, 3), (4, 4))))
    two_partitions = tile(2, 6)
    assert plan(two_partitions, three_rows).descriptors == 4


@pytest.mark.parametrize(("partitions", "engines"), [(1, 1), (8, 1), (9, 2), (64, 8), (128, 16)])
def test_eight_partitions_go_to_each_engine(partitions: int, engines: int) -> None:
    transfer = plan(tile(partitions, 512), rows(partitions, 512, pitch=512))
    assert transfer.num_engines == engines


def test_a_tile_further_down_uses_other_engines() -> None:
    transfer = plan(tile(32, 512, start=96), rows(32, 512, pitch=512))
    assert [bool(ns) for ns in transfer.engine_ns] == [False] * 12 + [True] * 4


def test_32_kib_on_one_engine_take_what_was_published() -> None:
    """NKI DMA overview: [4, 4096] bf16 keeps the first engine busy for 1416 ns on Trn2."""
    bf16 = DType.BFLOAT16
    transfer = plan(tile(4, 4096, dtype=bf16), rows(4, 4096, pitch=4096, dtype=bf16))
    assert transfer.num_engines == 1
    assert max(transfer.engine_ns) == pytest.approx(1416, rel=0.01)


@pytest.mark.parametrize(
    ("num_bytes", "low", "high"),
    [(64, 0.0, 0.15), (256, 0.0, 0.35), (1024, 0.35, 0.8), (2048, 0.8, 0.95), (4096, 0.98, 1.0)],
)
def test_rate_saturates_as_the_bandwidth_guide_says(
    num_bytes: int, low: float, high: float
) -> None:
    elems = num_bytes // 4
    transfer = plan(tile(128, elems), rows(128, elems, pitch=elems))
    rate = transfer.payload_bytes / max(transfer.engine_ns)
    assert low <= rate / TRN2.dma_bytes_per_ns <= high


def test_copy_inside_hbm_counts_both_sides() -> None:
    whole = rows(1, 1 << 20, pitch=1 << 20)
    transfer = plan(whole, whole)
    moved = transfer.read_bytes + transfer.written_bytes
    assert moved == 2 * transfer.payload_bytes
    assert transfer.num_engines == transfer.descriptors == 16
    assert max(transfer.engine_ns) == pytest.approx(moved / TRN2.dma_bytes_per_ns)


def test_a_few_bytes_inside_hbm_use_one_engine() -> None:
    few = rows(1, 16, pitch=16)
    assert plan(few, few).num_engines == 1


def test_a_cast_moves_the_wider_side() -> None:
    transfer = plan(tile(128, 512), rows(128, 512, pitch=512, dtype=DType.BFLOAT16))
    assert transfer.payload_bytes == 128 * 512 * 4
    assert transfer.read_bytes == 128 * 512 * 2


def test_transposes_reach_their_published_share_of_a_copy() -> None:
    bf16 = DType.BFLOAT16
    out = tile(128, 4096, dtype=bf16)
    copy = plan(out, rows(4096, 128, pitch=4096, dtype=bf16))
    from_hbm = plan(out, rows(4096, 128, pitch=128, dtype=bf16), op="dma_transpose")
    from_sbuf = plan(out, tile(128, 4096, dtype=bf16), op="dma_transpose")
    rate = from_hbm.payload_bytes / max(from_hbm.engine_ns) / TRN2.dma_bytes_per_ns
    assert rate == pytest.approx(0.9, rel=0.01)
    rate = from_sbuf.payload_bytes / max(from_sbuf.engine_ns) / TRN2.dma_bytes_per_ns
    assert rate == pytest.approx(0.5, rel=0.01)
    assert copy.descriptors > from_hbm.descriptors


def test_descriptor_mode_decides_who_issues() -> None:
    operands = tile(128, 512), rows(128, 512, pitch=512)
    assert plan(*operands).issuer is Engine.SYNC
    assert plan(*operands, dge_mode="swdge").issuer is Engine.GPSIMD
    assert plan(*operands).descriptor_engine_ns == 0
    assert plan(*operands, dge_mode="hwdge").descriptor_engine_ns == TRN2.dma_hwdge_ns


def test_no_transfer_beats_the_effective_rate() -> None:
    for target in Target:
        chip = load_chip(target)
        for elems in (1, 7, 100, 1000, 20000):
            transfer = plan(tile(128, elems), rows(128, elems, pitch=elems), chip=chip)
            least = transfer.payload_bytes / chip.dma_bytes_per_ns
            assert max(transfer.engine_ns) >= least - 1e-9
