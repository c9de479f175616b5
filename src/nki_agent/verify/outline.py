"""A traced Program in short: what each source line became, and the largest on-chip tensors.

Law: an outline is bounded whatever the Program holds, and its text is cleaned; what it leaves out
it counts.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.program.listing import write_instruction
from nki_agent.program.records import Instruction, Program

COUNTED_MAX = 200_000
"""Instructions that are looked at: about a tenth of a second."""
LINES_MAX = 200
TILES_MAX = 12


class OutlineLine(msgspec.Struct, frozen=True):
    """The instructions of one kind that one source line makes."""

    file: str
    line: int
    op: str
    count: int
    first: str
    """The first of them, with its operands."""


class OutlineTile(msgspec.Struct, frozen=True):
    """One on-chip allocation of a source line, and how many such there are."""

    line: int
    name: str
    memory: str
    shape: tuple[int, ...]
    dtype: str
    partition_bytes: int
    count: int


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What a Program does, line by line in the order in which lines are first reached."""

    arguments: tuple[str, ...]
    results: tuple[str, ...]
    lines: tuple[OutlineLine, ...]
    num_lines: int
    tiles: tuple[OutlineTile, ...]
    """The largest first."""
    num_tiles: int
    num_uncounted: int = 0
    """Instructions after those that were counted."""


def outline_program(program: Program) -> Outline:
    """Group instructions and tensors by the source line that made them."""
    sites = [stack[-1] if stack else -1 for stack in program.stacks]
    ops = [signature.op for signature in program.signatures]
    firsts: dict[tuple[int, str], Instruction] = {}
    counts = Counter[tuple[int, str]]()
    for node in islice(program.all_instructions(), COUNTED_MAX):
        key = sites[node.stack], ops[node.signature]
        firsts.setdefault(key, node)
        counts[key] += 1
    tiles, num_tiles = _outline_tiles(program, sites)
    return Outline(
        arguments=tuple(
            _tensor(program, a.tensor)
            if a.tensor is not None
            else f"{clean(a.name)} = {clean(repr(a.value))}"
            for a in program.arguments
        ),
        results=tuple(_tensor(program, result.tensor) for result in program.results),
        lines=tuple(
            OutlineLine(
                *_place(program, site),
                clean(op),
                counts[site, op],
                write_instruction(program, node),
            )
            for (site, op), node in islice(firsts.items(), LINES_MAX)
        ),
        num_lines=len(firsts),
        tiles=tiles,
        num_tiles=num_tiles,
        num_uncounted=max(0, program.num_instructions - COUNTED_MAX),
    )


def _outline_tiles(program: Program, sites: list[int]) -> tuple[tuple[OutlineTile, ...], int]:
    tiles = [tensor for tensor in program.tensors if tensor.memory.is_on_chip]
    keys = [(sites[t.stack], t.memory.value, t.shape, t.dtype.value) for t in tiles]
    counts = Counter(keys)
    firsts = dict(zip(reversed(keys), reversed(tiles), strict=True))
    ranked = sorted(firsts.items(), key=lambda item: -item[1].partition_bytes)[:TILES_MAX]
    found = tuple(
        OutlineTile(
            _place(program, key[0])[1],
            clean(tensor.name),
            tensor.memory.value,
            tensor.shape,
            tensor.dtype.value,
            tensor.partition_bytes,
            counts[key],
        )
        for key, tensor in ranked
    )
    return found, len(tiles)


def _place(program: Program, site: int) -> tuple[str, int]:
    if site < 0:
        return "", 0
    frame = program.sites[site]
    return clean(frame.file), frame.line


def _tensor(program: Program, number: int) -> str:
    tensor = program.tensors[number]
    shape = ", ".join(map(str, tensor.shape))
    return f"{clean(tensor.name)} [{shape}] {tensor.dtype.value}"
