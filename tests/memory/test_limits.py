"""Programs that would take the memory pass too long end with a diagnostic."""

import pytest

from nki_agent.memory import allocator, columns
from tests.memory.traced import place_body

TINY = """
o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
held = []
for i in range(100):
    t = nl.ndarray((1, 1), dtype=nl.float32{address})
    nisa.memset(dst=t, value=0.0)
    held.append(t)
for t in held:
    nisa.dma_copy(dst=o, src=t)
return o
"""


TURNS = """
o = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
held = []
for i in range(100):
    t = nl.zeros((1, 1), dtype=nl.float32)
    held.append(t)
for i in range(200):
    u = nl.zeros((1, 20000), dtype=nl.float32)
    nisa.dma_copy(dst=o, src=u[:, 0:1])
for t in held:
    nisa.dma_copy(dst=o, src=t)
return o
"""


def test_many_small_tensors_are_placed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place_body(TURNS, (1, 1)).codes == []
    monkeypatch.setattr(allocator, "STEPS_MAX", 1000)
    placed = place_body(TURNS, (1, 1))
    assert placed.codes == ["NK114"]
    assert "small ones are live together" in placed.findings[0].what


def test_cells_are_looked_at_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    o = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(64):
        nisa.dma_copy(dst=o[:, i:i + 1], src=a[:, i:i + 1])
    return o
    """
    assert place_body(text, (128, 64)).codes == []
    monkeypatch.setattr(columns, "CELLS_BUDGET", 1000)
    assert place_body(text, (128, 64)).codes == ["NK114"]
