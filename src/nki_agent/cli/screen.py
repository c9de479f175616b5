"""Printing: data to stdout, talk to stderr, colour only where a person looks.

Law: without colour nothing is lost; `NO_COLOR`, a pipe or a dumb terminal turn it off.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TextIO

import msgspec
import typer


class Colour(StrEnum):
    """Colours by their meaning."""

    GOOD = "green"
    BAD = "red"
    QUIET = "bright_black"


def say(text: str) -> None:
    """Talk: to stderr. Where nobody can listen, the command goes on."""
    with contextlib.suppress(OSError):
        typer.echo(text, err=True)


def show(text: str) -> None:
    """Data: to stdout."""
    typer.echo(text)


def show_json(record: Any) -> None:
    """Data as one JSON document on stdout."""
    typer.echo(msgspec.json.format(msgspec.json.encode(record), indent=2))


def has_colour(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal that a person wants colours on; None is a closed one."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return stream is not None and stream.isatty() and not plain


def paint(text: str, colour: Colour, *, stream: TextIO | None = None) -> str:
    """The text in a colour, if `stream` (stdout when left out) shows colours."""
    if not has_colour(stream or sys.stdout):
        return text
    return typer.style(text, fg=colour.value)


def write_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns under one another; the first row is the head, numbers lie to the right.

    >>> write_table([["name", "ns"], ["x", "1,000"], ["long", "20"]])
    ['name     ns', 'x     1,000', 'long     20']
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(cell[:1].isdigit() or cell == "-" for cell in column[1:]) for column in columns]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    ]
