"""The figures of a corpus as one HTML page with charts; nothing is loaded from elsewhere.

Law: all text is escaped; a chart says its figures in words too, and reads in light and in dark.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template

from nki_agent.base.diagnostic import clean
from nki_agent.corpus.card import WHY
from nki_agent.corpus.stats import Stats

WIDTH, NAME_WIDTH, COUNT_WIDTH = 460, 176, 96
LINE, BAR = 22, 14
OPERATORS_SHOWN = 30
PATTERNS_SHOWN = 30


def write_stats_page(stats: Stats, *, title: str) -> str:
    """The whole page."""
    template = Template(files("nki_agent.corpus").joinpath("page.html").read_text(encoding="utf-8"))
    body = "\n".join(
        [
            _write_tiles(stats),
            _write_charts(stats),
            "<h2>Turned away</h2>",
            _write_rejected(stats),
        ]
    )
    return template.substitute(title=escape(clean(title)), body=body)


def _write_tiles(stats: Stats) -> str:
    tiles = {
        "tasks": f"{stats.tasks:,}",
        "graphs": f"{stats.graphs:,}",
        "patterns": f"{stats.patterns:,}",
        "operators": f"{stats.operators_seen:,}",
        "median bound on trn2": f"{stats.bound_us_median:,} µs",
        "median length of a file": f"{stats.characters_median:,} characters",
        "candidates turned away": f"{sum(turned.count for turned in stats.rejected):,}",
    }
    items = "".join(
        f"<li><b>{escape(value)}</b><span>{escape(name)}</span></li>"
        for name, value in tiles.items()
    )
    return f'<ul class="tiles">{items}</ul>'


def _write_charts(stats: Stats) -> str:
    charts = [
        draw_counts(stats.by_split, title="Split"),
        draw_counts(stats.by_bound, title="What bounds them"),
        draw_counts(stats.by_level, title="Level"),
        draw_counts(stats.by_rank, title="Highest rank"),
        draw_counts(stats.by_dtype, title="Dtype of the first input"),
        draw_counts(stats.by_tolerance, title="Tolerance class"),
        draw_counts(stats.by_bound_us, title="Bound at the perf shapes"),
        draw_counts(stats.by_operators, title="Operators in a task"),
        draw_counts(stats.by_family, title="Family"),
        draw_counts(
            _first(stats.by_operator, OPERATORS_SHOWN),
            title="Operators, the commonest",
            total=stats.tasks,
        ),
        draw_counts(
            _first(stats.by_pattern, PATTERNS_SHOWN),
            title="Patterns, the commonest",
            total=stats.tasks,
        ),
    ]
    return f'<div class="charts">{"".join(charts)}</div>'


def _first(counts: Mapping[str, int], number: int) -> dict[str, int]:
    return dict(list(counts.items())[:number])


def draw_counts(counts: Mapping[str, int], *, title: str, total: int = 0, kind: str = "bar") -> str:
    """Horizontal bars, each with its count and its share of `total`, else of all of them."""
    total = total or max(1, sum(counts.values()))
    most = max([1, *counts.values()])
    room = WIDTH - NAME_WIDTH - COUNT_WIDTH
    parts = []
    for number, (key, count) in enumerate(counts.items()):
        middle = number * LINE + LINE / 2
        name = clean(key)
        shown = escape(name)
        words = f"{count:,} ({count / total:.1%})"
        parts.append(
            f'<text class="name" x="{NAME_WIDTH - 8}" y="{middle}">{escape(_cut(name))}</text>'
            f'<rect class="{kind}" x="{NAME_WIDTH}" y="{middle - BAR / 2}" height="{BAR}"'
            f' width="{max(1.0, room * count / most):.1f}" rx="2">'
            f"<title>{shown}: {words}</title></rect>"
            f'<text x="{NAME_WIDTH + room * count / most + 6:.1f}" y="{middle}">{words}</text>'
        )
    height = max(1, len(counts)) * LINE
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {height}"'
        f' role="img" aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )


NAME_CHARACTERS = 23
"""That fit on the left, be they wide ones."""


def _cut(text: str) -> str:
    return text if len(text) <= NAME_CHARACTERS else f"{text[: NAME_CHARACTERS - 1]}…"


def _write_rejected(stats: Stats) -> str:
    counts = {turned.reason.value: turned.count for turned in stats.rejected}
    if not counts:
        return '<p class="note">Nothing was.</p>'
    rows = "".join(
        f"<tr><td>{escape(turned.reason.value)}</td><td>{turned.count:,}</td>"
        f"<td>{escape(WHY[turned.reason])}</td><td>{_list_examples(turned.examples)}</td></tr>"
        for turned in stats.rejected
    )
    head = "<tr><th>reason</th><th>candidates</th><th>meaning</th><th>examples</th></tr>"
    chart = draw_counts(counts, title="Reasons", kind="away")
    return f'<div class="charts">{chart}</div><table>{head}{rows}</table>'


def _list_examples(examples: tuple[object, ...]) -> str:
    return "<br>".join(
        f"<code>{escape(clean(getattr(row, 'id', '')))}</code> "
        f"{escape(clean(getattr(row, 'detail', '')))}"
        for row in examples
    )
