"""The outer ring: used where a trial works, told where not, and in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nki_agent.sandbox.bubblewrap import find_ring, read_pid
from nki_agent.sandbox.outcome import Layer
from nki_agent.sandbox.pool import Sandbox, status
from tests.sandbox.starting import run_source, start_sandbox

OUTSIDE = "return [p for p in ('/etc', '/home', '/root/.ssh', '/usr/bin') if os.path.exists(p)]"


@pytest.fixture(autouse=True)
def fresh_trial() -> Iterator[None]:
    find_ring.cache_clear()
    yield
    find_ring.cache_clear()


@pytest.fixture
def ringed() -> Iterator[Sandbox]:
    with start_sandbox() as sandbox:
        if Layer.BUBBLEWRAP not in sandbox.status.active:
            pytest.skip(str(sandbox.status).splitlines()[0])
        yield sandbox


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (None, "bwrap is not installed"),
        ("#!/bin/sh\necho no namespaces here >&2; exit 1\n", "no namespaces here"),
        ("#!/bin/sh\nexit 3\n", "ended with status 3"),
        ("no program", "Exec format error"),
    ],
)
def test_bubblewrap_that_does_not_work_is_told_with_its_reason(
    script: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script is not None:
        program = tmp_path / "bwrap"
        program.write_text(script)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = status()
    state = next(s for s in found.layers if s.layer is Layer.BUBBLEWRAP)
    assert not state.active
    assert says in state.detail
    assert found.is_enough


def test_no_file_of_the_machine_is_there_inside(ringed: Sandbox) -> None:
    assert run_source(ringed, OUTSIDE).data in (b"[]", b"['/etc']")


def test_process_id_is_that_of_the_warmed_process(ringed: Sandbox) -> None:
    status_text = Path(f"/proc/{ringed.pid}/status").read_text()
    assert "NSpid" not in status_text or f"NSpid:\t{ringed.pid}\t1\n" in status_text


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"child-pid": "x"}'])
def test_process_id_that_is_not_told_is_none(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "info"
    path.write_bytes(text)
    with path.open("rb") as file:
        assert read_pid(file.fileno()) == 0
