"""Charts as inline SVG: bars with intervals, a curve of sorted values.

Law: a chart is text that needs nothing else, reads in light and in dark, and says its figures in
words too (`<title>`); colours are the page's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from nki_agent.bench.intervals import Interval

WIDTH = 640
BAR_HEIGHT, BAR_GAP, LABEL_WIDTH, VALUE_WIDTH = 18, 8, 190, 120
CURVE_HEIGHT, MARGIN = 240, 44
PERCENT = 100.0
TICKS = (0.0, 25.0, 50.0, 75.0, 100.0)


def draw_shares(rows: Sequence[tuple[str, Interval]], *, title: str) -> str:
    """Horizontal bars from 0 to 100 %, each with its interval as a line."""
    height = len(rows) * (BAR_HEIGHT + BAR_GAP) + BAR_GAP
    span = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    parts = []
    for number, (label, share) in enumerate(rows):
        top = BAR_GAP + number * (BAR_HEIGHT + BAR_GAP)
        middle = top + BAR_HEIGHT / 2
        low, high = LABEL_WIDTH + span * share.low, LABEL_WIDTH + span * share.high
        words = (
            f"{PERCENT * share.value:.1f} % ({PERCENT * share.low:.0f}–{PERCENT * share.high:.0f})"
        )
        parts += [
            f'<text x="{LABEL_WIDTH - 8}" y="{middle:.1f}" class="label">{escape(label)}</text>',
            (
                f'<rect x="{LABEL_WIDTH}" y="{top}" width="{span}" height="{BAR_HEIGHT}" '
                'class="back"/>'
            ),
            (
                f'<rect x="{LABEL_WIDTH}" y="{top}" width="{span * share.value:.1f}" '
                f'height="{BAR_HEIGHT}" class="bar"><title>{escape(label)}: {words}</title></rect>'
            ),
            (
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" '
                'class="range"/>'
            ),
            f'<text x="{LABEL_WIDTH + span + 8}" y="{middle:.1f}" class="value">{words}</text>',
        ]
    return frame_chart(parts, height=height, title=title)


def draw_percents(values: Sequence[tuple[str, float]], *, title: str) -> str:
    """One dot a task from the best down: percent of bound against rank."""
    ordered = sorted(values, key=lambda pair: -pair[1])
    span = WIDTH - MARGIN - 8
    depth = CURVE_HEIGHT - MARGIN

    def y_of(percent: float) -> float:
        return 8 + depth * (1 - min(percent, PERCENT) / PERCENT)

    parts = []
    for tick in TICKS:
        parts += [
            (
                f'<line x1="{MARGIN}" x2="{WIDTH - 8}" y1="{y_of(tick):.1f}" y2="{y_of(tick):.1f}" '
                'class="grid"/>'
            ),
            f'<text x="{MARGIN - 6}" y="{y_of(tick):.1f}" class="label">{tick:.0f}</text>',
        ]
    for rank, (label, percent) in enumerate(ordered):
        x = MARGIN + span * (rank + 0.5) / len(ordered)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y_of(percent):.1f}" r="3" class="dot">'
            f"<title>{escape(label)}: {percent:.1f} %</title></circle>"
        )
    parts.append(
        f'<text x="{MARGIN}" y="{CURVE_HEIGHT - 12}" class="note">tasks, best first</text>'
    )
    return frame_chart(parts, height=CURVE_HEIGHT, title=title)


def draw_speedups(values: Sequence[tuple[str, float]], *, title: str) -> str:
    """One bar a task on a logarithmic scale around 1."""
    ordered = sorted(values, key=lambda pair: -pair[1])
    most = max(1.0, *(abs(math.log2(speedup)) for _, speedup in ordered))
    middle, reach = CURVE_HEIGHT / 2, CURVE_HEIGHT / 2 - 16
    span = WIDTH - MARGIN - 8
    width = max(1.0, span / len(ordered) - 1)
    parts = []
    for rank, (label, speedup) in enumerate(ordered):
        size = reach * math.log2(speedup) / most
        x = MARGIN + span * rank / len(ordered)
        kind = "bar" if speedup > 1 else "slow"
        parts.append(
            f'<rect x="{x:.1f}" y="{middle - max(size, 0):.1f}" width="{width:.1f}" '
            f'height="{max(abs(size), 0.5):.1f}" class="{kind}">'
            f"<title>{escape(label)}: {speedup:.2f} times</title></rect>"
        )
    for power in (-most, 0.0, most):
        y = middle - reach * power / most
        parts.append(f'<text x="{MARGIN - 6}" y="{y:.1f}" class="label">{2**power:.2g}×</text>')
    parts.append(
        f'<line x1="{MARGIN}" x2="{WIDTH - 8}" y1="{middle}" y2="{middle}" class="range"/>'
    )
    return frame_chart(parts, height=CURVE_HEIGHT, title=title)


def frame_chart(parts: Sequence[str], *, height: float, title: str) -> str:
    """A figure of parts that are drawn `WIDTH` wide."""
    body = "\n".join(parts)
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {height:.0f}" '
        f'role="img" aria-label="{escape(title)}">\n{body}\n</svg></figure>'
    )
