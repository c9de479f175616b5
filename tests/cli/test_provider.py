"""`solve` with a model behind a real wire: what is kept, what is not, and what a failure costs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")
pytest.importorskip("anthropic")

from tests.agent.tiny import RIGHT, WRONG
from tests.cli.calling import Called, call, write_task
from tests.llm.server import KEY, Fail, Say, Step, Wire, serve

pytestmark = [pytest.mark.enable_socket, pytest.mark.filterwarnings("ignore")]
ANTHROPIC, COMPATIBLE = "anthropic/claude-sonnet-4-5", "openai-api/my/m"
BOTH = pytest.mark.parametrize("name", [ANTHROPIC, COMPATIBLE])


@pytest.fixture(autouse=True)
def _settle() -> Iterator[None]:
    yield
    gc.collect()


def solve(
    folder: Path, wire: Wire, name: str, monkeypatch: pytest.MonkeyPatch, *options: object
) -> Called:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("MY_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
    monkeypatch.setenv("MY_BASE_URL", f"{wire.url}/v1")
    fixed = ("--model", name, "--runs", folder / "runs", "--json")
    return call("solve", write_task(folder), *fixed, *options)


def verify(source: str) -> Say:
    return Say(text="try", calls=(("verify_kernel", {"source": source}),), cached=400)


@BOTH
def test_kernel_is_repaired_and_accepted_over_the_wire(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: tuple[Step, ...] = (
        verify(WRONG),
        Fail(status=429, code="rate_limit_error", retry_after="0.01"),
        Say(calls=(("submit", {"source": RIGHT}),)),
    )
    with serve(*steps) as wire:
        called = solve(tmp_path, wire, name, monkeypatch)
    assert called.code == 0, called.err
    document = called.document
    assert (document["end"], document["turns"]) == ("solved", 2)
    assert document["usage"] == {
        "input_tokens": 2000,
        "output_tokens": 100,
        "cached_tokens": 400,
        "cache_write_tokens": 0,
    }
    # 1600 and 400 cached tokens in, 100 out, at the list's price; the other model has none.
    usd = (1600 * 3.0 + 400 * 0.3 + 100 * 15.0) / 1e6
    assert document["usd"] == (pytest.approx(usd) if name == ANTHROPIC else None)
    (run,) = (tmp_path / "runs").iterdir()
    kept = b"".join(f.read_bytes() for f in run.rglob("*") if f.is_file())
    assert KEY.encode() not in kept
    assert KEY not in called.out + called.err


@BOTH
def test_wrong_key_ends_at_once_and_can_be_taken_up(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(Fail(status=401, message=f"wrong: {KEY}")) as wire:
        called = solve(tmp_path, wire, name, monkeypatch)
        assert len(wire.requests) == 1
    assert (called.code, called.document["end"]) == (4, "model_away")
    assert KEY not in called.out + called.err
    with serve(Say(calls=(("submit", {"source": RIGHT}),))) as wire:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        monkeypatch.setenv("MY_BASE_URL", f"{wire.url}/v1")
        (run,) = (tmp_path / "runs").iterdir()
        again = call("resume", run, "--json")
    assert (again.code, again.document["end"]) == (0, "solved"), again.err


@BOTH
def test_last_of_two_blocks_is_the_kernel(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"First I thought of:\n\n```python\n{WRONG}```\n\nbut:\n\n```python\n{RIGHT}```\n"
    with serve(Say(text=text)) as wire:
        called = solve(tmp_path, wire, name, monkeypatch)
        assert len(wire.requests) == 1
    assert (called.code, called.document["end"]) == (0, "solved"), called.err


@BOTH
def test_refusal_and_silence_end_soon(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(Say(text="I won't.", stop="content_filter")) as wire:
        called = solve(tmp_path, wire, name, monkeypatch)
        assert (called.document["end"], len(wire.requests)) == ("gave_up", 1)
    with serve(Say()) as wire:
        called = solve(tmp_path, wire, name, monkeypatch)
        assert (called.document["end"], len(wire.requests)) == ("no_kernel", 3)


@BOTH
def test_bad_calls_are_answered_and_not_carried_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: tuple[Step, ...] = (
        verify(WRONG),
        Say(calls=(("verify_kernel", {}),), stop="length"),
        Say(calls=(("verify_kernel", {"source": "#" * (10 << 20)}),)),
        Say(calls=(("submit", {"source": RIGHT}),)),
    )
    with serve(*steps) as wire:
        called = solve(tmp_path, wire, name, monkeypatch)
        sizes = [len(str(request)) for request in wire.requests]
    assert called.document["end"] == "solved", called.err
    assert max(sizes) < 1 << 20
    (run,) = (tmp_path / "runs").iterdir()
    text = (run / "trajectory.jsonl").read_text()
    assert "cut off at its limit of 16384 tokens" in text
    assert "bytes, and the limit is" in text
    assert len(text) < 1 << 20


def test_single_shot_sends_no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(Say(text=f"```python\n{RIGHT}```\n")) as wire:
        called = solve(tmp_path, wire, COMPATIBLE, monkeypatch, "--mode", "single-shot")
        assert "tools" not in wire.requests[0]
    assert called.code == 0


def test_run_of_the_benchmark_asks_a_closed_door_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", KEY)
    fixed = (
        "--task",
        "l1-add-2d-bf16",
        "--task",
        "l1-relu-1d-bf16",
        "--workers",
        1,
        "--episodes",
        1,
    )
    with serve(Fail(status=401)) as wire:
        monkeypatch.setenv("MY_BASE_URL", f"{wire.url}/v1")
        runs = tmp_path / "runs"
        called = call("bench", "run", "--model", COMPATIBLE, "--runs", runs, *fixed)
        assert len(wire.requests) == 1
    assert called.code == 4
    assert called.err.count("does not accept the key") == 2
    (run,) = runs.iterdir()
    assert (run / "attempts.jsonl").read_text() == ""
    with serve(Say(text="no kernel")) as wire:
        monkeypatch.setenv("MY_BASE_URL", f"{wire.url}/v1")
        again = call("bench", "run", "--resume", run, "--workers", 1)
        assert len(wire.requests) == 6
    assert again.code == 0, again.err
    assert "unknown" in call("bench", "report", run).out


def test_closed_door_is_a_failure_for_words_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", KEY)
    with serve(Fail(status=401)) as wire:
        monkeypatch.setenv("MY_BASE_URL", f"{wire.url}/v1")
        fixed = ("--model", COMPATIBLE, "--runs", tmp_path / "runs", "--yes")
        called = call("solve", "--describe", "Add one to a tensor.", *fixed)
    assert (called.code, "does not accept the key" in called.err) == (4, True)
