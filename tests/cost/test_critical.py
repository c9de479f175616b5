"""The deciding chain and what it says."""

import numpy as np
import pytest

from nki_agent.cost.critical import LimitKind, find_limit, walk_back
from nki_agent.isa.enums import Engine
from tests.cost.kernels import EXP, MATMUL, Shapes, run


@pytest.mark.parametrize(
    ("source", "shapes"),
    [(EXP, {"x": (512, 1024)}), (MATMUL, {"a": (512, 512), "b": (512, 1024)})],
)
def test_parts_of_the_chain_add_up_to_the_latency(source: str, shapes: Shapes) -> None:
    timeline = run(source, shapes)
    path = walk_back(timeline.start_ns, timeline.end_ns, timeline.causes)
    assert path.ns.sum() == pytest.approx(timeline.latency_ns)
    assert (path.ns >= 0).all()
    assert (np.diff(path.instructions) < 0).all()


def test_a_small_kernel_is_bound_by_its_waits() -> None:
    timeline = run(EXP, {"x": (128, 256)})
    assert timeline.limit.kind is LimitKind.WAITS
    assert "the longest chain is DMA" in timeline.limit.text


def test_nothing_to_run_has_no_limit() -> None:
    path = walk_back(np.zeros(0), np.zeros(0), np.zeros(0, np.int32))
    assert find_limit(0.0, dict.fromkeys(Engine, 0.0), [], path).share == 0
