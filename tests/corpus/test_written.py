"""What a model wrote passes the same filters, apart from our process."""

from __future__ import annotations

from pathlib import Path

import msgspec

from nki_agent.corpus.record import Family, Reason
from nki_agent.corpus.written import find_family, look_at_written
from tests.corpus.tasks import declared

GOOD = declared("return torch.softmax(torch.tanh(x), -1)", m=40, n=60)
BAD = declared("return x * 0 + 3", m=40, n=60)
EVIL = declared("raise SystemExit(3)")


def test_rows_are_filtered_alike_and_broken_ones_are_named(tmp_path: Path) -> None:
    rows = [msgspec.json.encode({"source": s, "model": "m"}) for s in (GOOD, BAD, EVIL)]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join([rows[0], b'{"source": 3}', rows[1], b"not json", rows[2]]))
    told: list[str] = []
    found = list(look_at_written(path, tell=told.append, allow_unsandboxed=True))
    assert [text.split(":")[1] for text in told] == ["2", "4"]
    good, bad, evil = found
    assert good.passed is not None
    assert good.passed.candidate.id.startswith("c-softmax-written-")
    assert good.passed.candidate.source == GOOD
    assert bad.rejection is not None
    assert bad.rejection.reason is Reason.CONSTANT
    assert evil.rejection is not None
    assert evil.rejection.reason is Reason.FAILS


def test_family_is_told_by_the_steps() -> None:
    assert find_family(["contract", "mul", "amax", "exp", "contract"]) is Family.ATTENTION
    assert find_family(["contract", "tanh"]) is Family.MATMUL
    assert find_family(["mul", "sum", "sqrt", "recip", "mul"]) is Family.NORM
    assert find_family(["sum"]) is Family.REDUCTION
    assert find_family(["move"]) is Family.LAYOUT
    assert find_family(["convolution stride=1", "max"]) is Family.CONV
    assert find_family(["tanh"]) is Family.ELEMENTWISE
