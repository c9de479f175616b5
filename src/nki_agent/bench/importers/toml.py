"""Writes `suite.toml`: the standard library reads TOML and does not write it.

Law: what is written reads back as the same record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from nki_agent.bench.suite import SuiteRecord

DELETE = "\x7f"
SURROGATES = range(0xD800, 0xE000)


def write_toml(record: SuiteRecord) -> str:
    """The record as text."""
    lines = ["[source]", *_write_table(msgspec.to_builtins(record.source))]
    for row in record.task:
        lines += ["", "[[task]]", *_write_table(msgspec.to_builtins(row))]
    return "\n".join(lines) + "\n"


def _write_table(table: Mapping[str, object]) -> Iterator[str]:
    for name, value in table.items():
        yield f"{name} = {_write(value)}"


def _write(value: object) -> str:
    if isinstance(value, list | tuple):
        if not value:
            return "[]"
        return "[\n" + "".join(f"    {_write(item)},\n" for item in value) + "]"
    if isinstance(value, str):
        # TOML's basic strings escape as JSON does, and forbid one control character more.
        text = "".join("�" if ord(c) in SURROGATES else c for c in value)
        return json.dumps(text, ensure_ascii=False).replace(DELETE, "\\u007f")
    return str(value)
