"""The rehearsal traces without a finding, and leaves everything as a fresh process has it."""

from __future__ import annotations

import sys

import pytest

from nki_agent.chip.spec import Target
from nki_agent.nki.current import modules
from nki_agent.nki.current.recorder import STATE
from nki_agent.nki.current.rehearsal import TARGETS, make_request, rehearse
from nki_agent.nki.current.tracing import trace


@pytest.mark.parametrize("target", TARGETS)
def test_rehearsed_kernel_is_traced_to_its_end(target: Target) -> None:
    reply = trace(make_request(target))
    assert reply.findings == ()
    assert reply.program is not None


def test_rehearsal_leaves_full_stock_and_no_trace_of_itself() -> None:
    before = set(sys.modules)
    rehearse()
    assert set(sys.modules) <= before
    assert STATE.recorder is None
    assert len(modules._STOCK) == modules.STOCKED
