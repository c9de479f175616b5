"""Every row of limits.toml: the largest legal call is recorded, the first illegal one is refused.

Law: a row is a documented limit of one instruction. Where it begins with a generation, the same
calls are refused on the generation before. Not covered: what depends on values or on other calls.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.tracing import trace_source
from nki_agent.program.validate import check_program
from tests.kernels import body

ROWS = tomllib.loads(Path(__file__).with_name("limits.toml").read_text("utf-8"))["limit"]
OLDER = {Target.TRN2: Target.TRN1, Target.TRN3: Target.TRN2}
DTYPES = {
    "f32": "float32",
    "tf32": "tfloat32",
    "bf16": "bfloat16",
    "f16": "float16",
    "e4m3": "float8_e4m3",
    "e4m3fn": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e8m0": "float8_e8m0fnu",
    "e5m2x4": "float8_e5m2_x4",
    "e4m3fnx4": "float8_e4m3fn_x4",
    "e2m1x4": "float4_e2m1fn_x4",
    "i32": "int32",
    "u32": "uint32",
    "i16": "int16",
    "u16": "uint16",
    "i8": "int8",
    "u8": "uint8",
}
TILE = re.compile(rf"\b({'|'.join(DTYPES)})(?:\.(\w+))?\[([\d, ]+)\]")
END = "\nreturn nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)"


def written_out(call: str) -> str:
    """The call with `f32.psum[8,4]` as a new tile of that shape; SBUF if no memory is named."""

    def tile(match: re.Match[str]) -> str:
        dtype, memory, shape = match.groups()
        buffer = memory or "sbuf"
        return f"nl.ndarray(({shape},), dtype=nl.{DTYPES[dtype]}, buffer=nl.{buffer})"

    return TILE.sub(tile, call)


def findings(call: str, target: Target) -> list[Diagnostic]:
    """What the tracer, and then the trusted process, has against a kernel of one call."""
    reply = trace_source(body(written_out(call) + END, params=""), [], target=target)
    if reply.program is None:
        return list(reply.findings)
    return check_program(reply.program, load_chip(target))


def target_of(row: dict[str, Any]) -> Target:
    return Target(row.get("since", row.get("target", "trn2")))


def calls(kind: str) -> Iterator[Any]:
    """One case for each call that a row accepts or refuses."""
    for row in ROWS:
        for number, call in enumerate(row.get(kind, ())):
            name = f"{row['op']}: {row['law']} ({number})"
            yield pytest.param(call, target_of(row), row.get("code"), id=name)


def calls_since() -> Iterator[Any]:
    """One case for each call that a generation brought, on the one before."""
    for row in ROWS:
        for number, call in enumerate(row["accept"] if "since" in row else ()):
            name = f"{row['op']}: {row['law']} ({number})"
            older = OLDER[Target(row["since"])]
            yield pytest.param(call, older, row.get("older_code", "NK311"), id=name)


@pytest.mark.parametrize(("call", "target", "code"), [*calls("accept")])
def test_largest_legal_call_is_accepted(call: str, target: Target, code: str | None) -> None:
    assert [str(f) for f in findings(call, target)] == []


@pytest.mark.parametrize(("call", "target", "code"), [*calls("refuse")])
def test_first_illegal_call_is_refused(call: str, target: Target, code: str) -> None:
    found = findings(call, target)
    assert [f.code for f in found[:1]] == [code], [str(f) for f in found]


@pytest.mark.parametrize(("call", "target", "code"), [*calls_since()])
def test_call_of_a_newer_generation_is_refused_on_the_older(
    call: str, target: Target, code: str
) -> None:
    found = findings(call, target)
    assert [f.code for f in found[:1]] == [code], [str(f) for f in found]


def test_rows_name_their_source_and_are_distinct() -> None:
    laws = [(row["op"], row["law"]) for row in ROWS]
    assert len(set(laws)) == len(laws)
    for row in ROWS:
        assert row["source"]
        assert row["accept"] or row["refuse"]
        assert "code" in row or not row.get("refuse")


def test_every_instruction_has_a_row() -> None:
    declared = {name for name, d in TABLE.items() if d.page.startswith("nki.isa.")}
    assert declared - {row["op"] for row in ROWS} == set()
