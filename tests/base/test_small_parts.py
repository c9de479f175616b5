"""Hashes, seeds, JSON lines, clocks and errors."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nki_agent.base.clock import FakeClock, SystemClock
from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError, TaskError, UsageError
from nki_agent.base.hashes import hash_bytes, hash_files, hash_text, short_hash
from nki_agent.base.jsonl import append_line, read_lines
from nki_agent.base.seeds import draw_root_seed, rng_for, seed_for


def test_hash_of_a_source_tree_is_independent_of_order_and_sees_every_change() -> None:
    first = hash_files({"a.py": "1", "b.py": "2"})
    assert first == hash_files({"b.py": "2", "a.py": "1"})
    assert first != hash_files({"a.py": "12", "b.py": ""})
    assert first != hash_files({"a.pyb.py": "12"})
    assert short_hash(hash_text("x")) == hash_bytes(b"x")[:12]


def test_text_that_is_no_unicode_has_a_hash() -> None:
    assert hash_text("\ud800") != hash_text("\ud801")
    assert hash_files({"a.py": "\ud800"}) != hash_files({"a.py": "\ud801"})


def test_seed_depends_on_every_name_and_nothing_else() -> None:
    assert seed_for(1, "a", 2) == seed_for(1, "a", 2)
    assert len({seed_for(1, "a", 2), seed_for(1, "a", 3), seed_for(2, "a", 2)}) == 3
    assert seed_for(1, "ab") != seed_for(1, "a", "b")
    drawn = rng_for(1, "x").standard_normal(3)
    assert (drawn == rng_for(1, "x").standard_normal(3)).all()
    assert draw_root_seed() != draw_root_seed()


class Row(msgspec.Struct):
    """A record."""

    number: int


def test_line_that_a_crash_cut_off_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_line(path, Row(1))
    append_line(path, {"number": 2})
    with path.open("ab") as file:
        file.write(b'{"numb')
    assert [row["number"] for row in read_lines(path)] == [1, 2]


def test_fake_clock_moves_only_when_read() -> None:
    clock = FakeClock(start_ns=0, step_ns=5)
    assert [clock.monotonic_ns(), clock.monotonic_ns()] == [5, 10]
    assert clock.now() == clock.now()
    system = SystemClock()
    assert system.monotonic_ns() <= system.monotonic_ns()
    assert system.now().tzinfo is not None


@pytest.mark.parametrize("kind", [TaskError, UsageError])
def test_error_shows_its_hint(kind: type[TaskError] | type[UsageError]) -> None:
    assert str(kind("no file", hint="check the path")) == "no file\n  hint: check the path"
    assert str(kind("no file")) == "no file"


def test_kernel_error_carries_its_diagnostic() -> None:
    finding = Diagnostic(code="NK201", what="too many rows")
    assert KernelError(finding).diagnostic is finding
