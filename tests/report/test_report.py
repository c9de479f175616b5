"""Tables and pages say what the attempts say, and nothing that they bring is believed."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.bench.intervals import Interval
from nki_agent.chip.spec import Target
from nki_agent.evals.results import read_results
from nki_agent.report.author import write_author
from nki_agent.report.chart import draw_percents, draw_shares, draw_speedups
from nki_agent.report.figures import write_share, write_tokens, write_usd
from nki_agent.report.markdown import write_comparison, write_report
from nki_agent.report.page import make_table, write_page
from tests.evals.made import write_usual_run


class Reader(HTMLParser):
    """Notes tags, and complains about what is not closed."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_of_an_author_names_the_worst_and_shows_kernels(tmp_path: Path) -> None:
    run = read_results(write_usual_run(tmp_path))
    folder = tmp_path / "attempts" / "l1-add-trn2-0"
    folder.mkdir(parents=True)
    (folder / "kernel.py").write_text("def kernel(): ...\n", encoding="utf-8")
    text = write_author(run, before=run, shown=("l1-add",), command="scripts/make_results.py RUN")
    assert "| % of the bound, geometric mean |" in text
    assert "| DMA |" in text
    assert "```python\ndef kernel(): ...\n```" in text
    with pytest.raises(UsageError, match="no kernel"):
        write_author(run, before=None, shown=("l1-sum",), command="x")


def test_page_of_an_author_is_of_one_target(tmp_path: Path) -> None:
    run = read_results(write_usual_run(tmp_path))
    one = run.at(Target.TRN2)
    assert one.config.targets == (Target.TRN2,)
    assert {a.target for a in one.attempts} == {"trn2"}
    with pytest.raises(UsageError, match="no attempts on trn1"):
        run.at(Target.TRN1)


def test_report_has_every_figure(tmp_path: Path) -> None:
    text = write_report(read_results(write_usual_run(tmp_path)))
    assert "3 of 4 attempts are made" in text
    assert "| trn2 | 4 | 50.0 (15.0–85.0) | 25.0 (4.6–69.9) | 25.0 (4.6–69.9) |" in text
    assert "| pass@1 | 25.0" in text
    assert "NK501 ×1" in text
    assert "| trn2 | 750 | 3000 | 0.1875 | 0.7500 |" in text
    assert "modelled, not measured" in text


def test_page_is_sound_and_escapes_what_it_is_given(tmp_path: Path) -> None:
    page = write_page([read_results(write_usual_run(tmp_path))])
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert reader.tags.count("script") == 1
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page
    assert "http" not in re.sub(r'http-equiv="[^"]*"', "", page)


def test_comparison_has_a_row_for_each_run(tmp_path: Path) -> None:
    results = [
        read_results(write_usual_run(tmp_path / model, model=model)) for model in ("one", "two")
    ]
    text = write_comparison(results)
    assert [line.split(" |")[0] for line in text.splitlines()[2:]] == [
        "| one (loop)",
        "| two (loop)",
    ]
    assert "one (loop)" in write_page(results)


def test_table_keeps_bars_of_its_cells() -> None:
    table = make_table("| a | b |\n|---|---|\n| x\\|y | `z` |")
    assert "<tr><td>x|y</td><td><code>z</code></td></tr>" in table


def test_charts_draw_each_value_and_say_it() -> None:
    share = Interval(value=0.5, low=0.2, high=0.9)
    assert "50.0 % (20–90)" in draw_shares([("level <1>", share)], title="Right")
    assert "level &lt;1&gt;" in draw_shares([("level <1>", share)], title="Right")
    dots = draw_percents([("a", 10.0), ("b", 90.0)], title="Bound")
    assert dots.index("b: 90.0 %") < dots.index("a: 10.0 %")
    bars = draw_speedups([("a", 0.5), ("b", 4.0)], title="Speedup")
    assert "b: 4.00 times" in bars
    assert 'class="slow"' in bars


def test_figures_are_short() -> None:
    assert write_share(None) == "–"
    assert [write_usd(x) for x in (0.0, 0.01234, 2.5, None)] == ["0.00", "0.0123", "2.50", "–"]
    assert [write_tokens(x) for x in (999.4, 12_345.0)] == ["999", "12.3k"]
