"""Every row of cost.toml: an instruction keeps its engine for as long as the page says.

Law: a row is a documented cost of one call. Not covered: fixed overheads, which tests/cost has.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.durations import clock_ghz, time_call
from nki_agent.isa.declaration import Call
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.tracing import trace_source
from tests.conformance.test_limits import END, written_out
from tests.kernels import body

ROWS = tomllib.loads(Path(__file__).with_name("cost.toml").read_text("utf-8"))["cost"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["law"])
def test_call_takes_the_documented_cycles(row: dict[str, Any]) -> None:
    target = Target(row.get("target", "trn2"))
    reply = trace_source(body(written_out(row["call"]) + END, params=""), [], target=target)
    assert reply.program is not None, reply.findings
    (signature,) = (s for s in reply.program.signatures if s.op == row["op"])
    chip = load_chip(target)
    time = time_call(Call(TABLE[row["op"]], signature, chip))
    assert time.data_ns * clock_ghz(time.engine, chip) == pytest.approx(row["cycles"])


def test_rows_name_their_source() -> None:
    assert all(row["source"] for row in ROWS)
