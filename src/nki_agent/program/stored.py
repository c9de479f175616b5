"""The stored form of a Program: msgpack, validated while it is read.

Law: equal Programs have equal bytes; a hostile file gives a `StoredError` and nothing else.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from nki_agent.base.errors import NkiAgentError
from nki_agent.program.records import SCHEMA, Program, TraceReply

BYTES_MAX = 512 * 2**20
"""A larger Program is refused before it is read (DESIGN.md, the hinge)."""

_ENCODER = msgspec.msgpack.Encoder()
_PROGRAM = msgspec.msgpack.Decoder(Program)
_REPLY = msgspec.msgpack.Decoder(TraceReply)


T = TypeVar("T")


class StoredError(NkiAgentError):
    """Bytes that are no Program."""


def encode_program(program: Program) -> bytes:
    """The bytes of a Program."""
    return _ENCODER.encode(program)


def encode_reply(reply: TraceReply) -> bytes:
    """The bytes of a tracing process's answer."""
    return _ENCODER.encode(reply)


def decode_program(data: bytes) -> Program:
    """Read a Program; StoredError where the bytes are not one."""
    program = _decode(_PROGRAM, data)
    _require_schema(program)
    return program


def decode_reply(data: bytes) -> TraceReply:
    """Read a tracing process's answer; StoredError where the bytes are not one."""
    reply = _decode(_REPLY, data)
    if reply.program is not None:
        _require_schema(reply.program)
    return reply


def _require_schema(program: Program) -> None:
    if program.schema != SCHEMA:
        raise StoredError(f"Program has schema {program.schema}, this version reads {SCHEMA}")


def _decode(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    if len(data) > BYTES_MAX:
        raise StoredError(f"Program has {len(data)} bytes, the limit is {BYTES_MAX}")
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, MemoryError) as error:
        raise StoredError(f"not a Program: {error}") from error
