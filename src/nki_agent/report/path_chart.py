"""Charts of one run: how far each kernel came, and how fast it was."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from nki_agent.report.chart import MARGIN, WIDTH, frame_chart
from nki_agent.report.figures import write_us
from nki_agent.report.stored import Step
from nki_agent.verify.verdict import Stage

HEIGHT = 230
LABELS = 96
TOP, EDGE, BELOW, ABOVE = 12, 8, 10, 14
COMPILES = "compiles"
LADDER = tuple(stage.value for stage in Stage)
ROWS = (*LADDER[:-2], COMPILES, *LADDER[-2:])
"""From the bottom up; a kernel that compiles may be right or wrong."""
ROOM_ABOVE = 1.1


def draw_path(steps: Sequence[Step], *, title: str) -> str:
    """One dot a kernel, on the ladder of stages."""
    rise = (HEIGHT - MARGIN) / len(ROWS)

    def y_of(row: str) -> float:
        return TOP + rise * (len(ROWS) - 1 - ROWS.index(row))

    parts = []
    for row in ROWS:
        parts += [_rule(y_of(row), "grid"), _label(y_of(row), row)]
    places = [(_x_of(n, len(steps)), y_of(_row(step))) for n, step in enumerate(steps)]
    parts.append(_path(places))
    for (x, y), step in zip(places, steps, strict=True):
        kind = "dot" if step.stage in (None, Stage.RIGHT) else "off"
        parts.append(_dot(x, y, kind, f"turn {step.turn}, {step.tool}: {_row(step)}"))
    return frame_chart([*parts, *_name_turns(steps)], height=HEIGHT, title=title)


def draw_latency(steps: Sequence[Step], *, bound_ns: float | None, title: str) -> str:
    """Latency of each kernel that has one; the bound as a line."""
    timed = [(n, s.turn, s.latency_ns) for n, s in enumerate(steps) if s.latency_ns is not None]
    most = ROOM_ABOVE * max([bound_ns or 0.0, *(latency for _, _, latency in timed)])

    def y_of(latency_ns: float) -> float:
        return TOP + (HEIGHT - MARGIN) * (1 - latency_ns / most)

    parts = [_rule(y_of(0), "grid"), _label(y_of(0), "0")]
    if bound_ns:
        parts += [_rule(y_of(bound_ns), "range")]
        parts += [_label(y_of(bound_ns), f"bound {write_us(bound_ns)}")]
    places = [(_x_of(n, len(steps)), y_of(latency)) for n, _, latency in timed]
    parts.append(_path(places))
    for (x, y), (_, turn, latency_ns) in zip(places, timed, strict=True):
        time = write_us(latency_ns)
        parts.append(_dot(x, y, "dot", f"turn {turn}: {time} µs"))
        parts.append(_words(x, y - ABOVE, time))
    return frame_chart([*parts, *_name_turns(steps)], height=HEIGHT, title=title)


def _row(step: Step) -> str:
    return COMPILES if step.stage is None else step.stage.value


def _x_of(number: int, count: int) -> float:
    return LABELS + (WIDTH - EDGE - LABELS) * (number + 0.5) / count


def _name_turns(steps: Sequence[Step]) -> list[str]:
    """The turn below the first kernel of each."""
    firsts: dict[int, int] = {}
    for number, step in enumerate(steps):
        firsts.setdefault(step.turn, number)
    return [
        _words(_x_of(number, len(steps)), HEIGHT - BELOW, f"turn {turn}")
        for turn, number in firsts.items()
    ]


def _path(places: Sequence[tuple[float, float]]) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{points}" class="path"/>'


def _rule(y: float, kind: str) -> str:
    right = WIDTH - EDGE
    return f'<line x1="{LABELS}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="{kind}"/>'


def _label(y: float, text: str) -> str:
    return f'<text x="{LABELS - EDGE}" y="{y:.1f}" class="label">{escape(text)}</text>'


def _words(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def _dot(x: float, y: float, kind: str, words: str) -> str:
    title = f"<title>{escape(words)}</title>"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="{kind}">{title}</circle>'
