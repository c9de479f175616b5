"""The stored form: round trips, and hostile bytes that give one clear error."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_agent.chip.spec import Target, load_chip
from nki_agent.program.records import (
    Affine,
    Argument,
    Detail,
    Dialect,
    Guard,
    Instruction,
    Launch,
    Loop,
    LoopKind,
    Program,
    Scope,
    ScopeKind,
    TraceReply,
)
from nki_agent.program.stored import (
    StoredError,
    decode_program,
    decode_reply,
    encode_program,
    encode_reply,
)
from nki_agent.program.validate import check_program
from tests.kernels import SOFTMAX, f32, traced

CHIP = load_chip(Target.TRN2)
SAMPLE = traced(SOFTMAX, [f32("x", 200, 96)])
DATA = encode_program(SAMPLE)


def test_program_round_trips_with_equal_bytes() -> None:
    assert decode_program(DATA) == SAMPLE
    assert encode_program(decode_program(DATA)) == DATA


def test_loops_guards_and_scopes_round_trip() -> None:
    row = Instruction(0, (1,), (Affine(4, ((0, 512),)),), (), 0, Detail(after=(0,)))
    loop = Loop(LoopKind.SEQUENTIAL, 0, 0, 0, Affine(8, ()), 1, (row,), 0)
    nested = Scope(ScopeKind.MULTI_BUFFER, 2, (Guard((), (loop,)),))
    program = Program(
        dialect=Dialect.BETA1,
        target="trn1",
        kernel="k",
        launch=Launch(),
        arguments=(Argument("n", None, (1, 2), SAMPLE.arguments[0].access),),
        results=(),
        tensors=(),
        constants=(),
        registers=(),
        signatures=(),
        sites=(),
        stacks=(),
        bodies=((nested,),),
    )
    assert decode_program(encode_program(program)) == program
    assert list(program.instructions()) == [row]


def test_program_of_another_schema_is_refused() -> None:
    with pytest.raises(StoredError, match="schema"):
        decode_program(encode_program(msgspec.structs.replace(SAMPLE, schema=99)))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91" * 200_000, DATA[:-1], DATA + b"\0"])
def test_bytes_that_are_no_program_are_refused(data: bytes) -> None:
    with pytest.raises(StoredError):
        decode_program(data)


@settings(max_examples=300, deadline=None)
@given(position=st.integers(0, len(DATA) - 1), value=st.integers(0, 255))
def test_flipped_byte_is_refused_or_gives_findings_but_never_an_exception(
    position: int, value: int
) -> None:
    data = bytearray(DATA)
    data[position] = value
    try:
        program = decode_program(bytes(data))
    except StoredError:
        return
    for finding in check_program(program, CHIP):
        assert finding.code.startswith("NK")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_no_reply(data: bytes) -> None:
    with pytest.raises(StoredError):
        decode_reply(b"\xff" + data)


def test_reply_round_trips() -> None:
    reply = TraceReply(program=SAMPLE, findings=())
    assert decode_reply(encode_reply(reply)) == reply
