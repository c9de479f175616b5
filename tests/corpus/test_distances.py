"""How far a test task is from those that train."""

from __future__ import annotations

import msgspec

from nki_agent.corpus.canonical import canonical_graph
from nki_agent.corpus.distances import measure_distances, summarise_distances
from nki_agent.corpus.record import Split
from tests.corpus.tasks import given
from tests.corpus.test_freeze import make

BODIES = {
    "c-a-a-000001": "return torch.softmax(x, -1) * y",
    "c-a-a-000002": "return torch.softmax(x, -1) * y.tanh()",
    "c-a-a-000003": "return x.cumsum(0)",
}


def test_distance_is_to_the_nearest_that_trains() -> None:
    graphs = {name: canonical_graph(given(body)) for name, body in BODIES.items()}
    splits = (Split.TRAIN, Split.TEST, Split.TEST)
    tasks = [
        msgspec.structs.replace(make(name, split), graph=graphs[name].hash)
        for name, split in zip(BODIES, splits, strict=True)
    ]
    found = measure_distances(tasks, graphs)
    assert 0 < found["c-a-a-000002"] < found["c-a-a-000003"] == 1.0
    assert summarise_distances(tasks, graphs)["lowest"] == found["c-a-a-000002"]
    assert summarise_distances(tasks[:1], graphs) == {}
