"""Facts of the chips: sources, derived peaks, names."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from nki_agent.chip.spec import (
    DEFAULT_TARGET,
    Target,
    find_target,
    load_chip,
    load_generation,
)

MACS_PER_CYCLE = 128 * 128


@pytest.mark.parametrize("generation", [2, 3, 4])
def test_every_number_has_a_source(generation: int) -> None:
    text = files("nki_agent.chip").joinpath(f"gen{generation}.toml").read_text()
    for name, row in tomllib.loads(text).items():
        assert set(row) == {"value", "source"}, name
        assert row["source"], name
    assert load_generation(generation).generation == generation


@pytest.mark.parametrize(
    ("target", "teraflops", "gigabytes_per_s"),
    [(Target.TRN1, 91.75, 272), (Target.TRN2, 78.6, 368), (Target.TRN3, 78.6, 528)],
)
def test_peaks_agree_with_the_vendors_tables(
    target: Target, teraflops: float, gigabytes_per_s: float
) -> None:
    chip = load_chip(target)
    assert 2 * MACS_PER_CYCLE * chip.tensor_clock_ghz / 1000 == pytest.approx(teraflops, rel=2e-3)
    assert chip.dma_bytes_per_ns == pytest.approx(gigabytes_per_s)
    assert chip.psum_bank_bytes * chip.psum_banks == chip.psum_partition_bytes
    assert chip.sbuf_usable_partition_bytes < chip.sbuf_partition_bytes


def test_targets_have_names_and_generations() -> None:
    assert find_target("gen3") is Target.TRN2 is DEFAULT_TARGET
    assert find_target("inf2") is Target.INF2
    assert load_chip(Target.INF2) == load_chip(Target.TRN1)
    assert find_target("trn9") is None
