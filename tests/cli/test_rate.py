"""How fast long work is, said only once that is known."""

from __future__ import annotations

import pytest

from nki_agent.base.clock import FakeClock
from nki_agent.cli.rate import Rate


def say_all(capsys: pytest.CaptureFixture[str], *, step_s: float) -> str:
    rate = Rate(clock=FakeClock(step_ns=int(step_s * 1e9)), noun="tasks")
    rate.show(4, total=6)
    rate.show(6, total=6)
    return capsys.readouterr().err


def test_rate_is_of_what_was_done_since_the_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[6/6] 12 tasks a minute" in say_all(capsys, step_s=10.0)


def test_no_rate_of_work_that_took_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    said = say_all(capsys, step_s=0.001)
    assert "[6/6]" in said
    assert "a minute" not in said
