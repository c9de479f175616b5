"""What a summary says about a timeline."""

import msgspec
import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.bound import Work, bound_ns
from nki_agent.cost.summary import Summary, format_figure, format_summary, summarise
from nki_agent.cost.timeline import schedule
from nki_agent.isa.enums import Engine
from tests.cost.kernels import EXP, MATMUL, Shapes, trace

TRN2 = load_chip(Target.TRN2)


def sum_up(source: str, shapes: Shapes, work: Work | None = None) -> Summary:
    program = trace(source, shapes)
    bound = None if work is None else bound_ns(work, TRN2)
    return summarise(schedule(program, TRN2), program, bound)


def test_summary_survives_json() -> None:
    summary = sum_up(EXP, {"x": (256, 1024)}, Work(hbm_bytes=2 * 256 * 1024 * 4))
    assert msgspec.json.decode(msgspec.json.encode(summary), type=Summary) == summary


def test_figures_come_from_the_timeline() -> None:
    num_bytes = 256 * 1024 * 4
    summary = sum_up(EXP, {"x": (256, 1024)}, Work(hbm_bytes=2 * num_bytes))
    assert (summary.dma.read_bytes, summary.dma.written_bytes) == (num_bytes, num_bytes)
    assert summary.dma.minimal_ratio == 1.0
    assert summary.dma.mean_descriptor_bytes == 4096
    assert summary.bound_by == "bytes"
    assert summary.percent_of_bound is not None
    assert 0 < summary.percent_of_bound <= 100
    assert {use.engine for use in summary.engines} == set(Engine)


def test_lines_account_for_the_whole_chain() -> None:
    summary = sum_up(MATMUL, {"a": (512, 512), "b": (512, 1024)})
    assert sum(line.critical_ns for line in summary.lines) == pytest.approx(summary.latency_ns)
    assert sum(line.count for line in summary.lines) == summary.num_instructions
    shares = [line.share for line in summary.lines]
    assert shares == sorted(shares, reverse=True)


def test_text_is_plain_and_names_the_essentials() -> None:
    text = format_summary(sum_up(EXP, {"x": (256, 1024)}, Work(hbm_bytes=2 * 256 * 1024 * 4)))
    assert "µs on trn2 (modelled, not measured)" in text
    assert "% of the bound" in text
    assert "limited by" in text
    assert "kernel.py:" in text
    assert text.isprintable() or set(text) - {"\n"} == set(text.replace("\n", ""))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (0.000_087, "0.000087"),
        (0.0268, "0.027"),
        (0.31, "0.31"),
        (4.26, "4.3"),
        (22.61, "22.6"),
        (16.0, "16.0"),
        (1234.5, "1234.5"),
    ],
)
def test_small_figure_keeps_two_digits(number: float, text: str) -> None:
    assert format_figure(number) == text


def test_without_a_bound_no_percentage_is_claimed() -> None:
    summary = sum_up(EXP, {"x": (256, 1024)})
    assert (summary.percent_of_bound, summary.bound_ns, summary.bound_by) == (None, None, None)
    assert "of the bound" not in format_summary(summary)


def test_nothing_to_run_can_be_summed_up() -> None:
    summary = sum_up("(x):\n    out = hbm(x.shape)\n    return out\n", {"x": (128, 128)})
    assert summary.latency_ns == 0
    assert summary.advice == ()
    assert "there is nothing to run" in format_summary(summary)
