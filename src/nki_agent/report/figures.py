"""Figures as text: shares with intervals, money, times; a dash where there is none."""

from __future__ import annotations

from nki_agent.bench.intervals import Interval

NONE = "–"
UNKNOWN = "unknown"
PERCENT = 100.0
K = 1000.0


def write_share(share: Interval | None) -> str:
    """A share from 0 to 1 in percent: `62.0 (48.2–74.1)`."""
    return NONE if share is None else write_interval(share.scaled(PERCENT), digits=1)


def write_interval(interval: Interval | None, *, digits: int) -> str:
    """A figure with its range."""
    if interval is None:
        return NONE
    value, low, high = (f"{x:.{digits}f}" for x in (interval.value, interval.low, interval.high))
    return f"{value} ({low}–{high})"


def write_usd(usd: float | None, *, is_priced: bool = True) -> str:
    """Dollars, to the hundredth of a cent where they are few; unknown without a price."""
    if usd is None:
        return NONE if is_priced else UNKNOWN
    return f"{usd:.2f}" if usd >= 1 or usd == 0 else f"{usd:.4f}"


def write_tokens(tokens: float | None) -> str:
    """Tokens, in thousands from ten thousand up."""
    if tokens is None:
        return NONE
    return f"{tokens:.0f}" if tokens < 10 * K else f"{tokens / K:.1f}k"


def write_us(latency_ns: float) -> str:
    """A latency in microseconds."""
    us = latency_ns / K
    return f"{us:.2f}" if us < PERCENT else f"{us:.0f}"
