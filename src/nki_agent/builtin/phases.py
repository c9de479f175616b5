"""Phases: the steps of a tile cut into functions, each one tile behind the one before.

Engines work through their instructions in order. Where an engine would wait for another in the
middle of a tile, its remaining steps are issued after the next tile's first ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from nki_agent.builtin.text import PartScope, Scope, Source
from nki_agent.builtin.tile_steps import (
    Access,
    AddUp,
    AffineSelect,
    Iota,
    Load,
    Step,
    Store,
    Tile,
    step_reads,
    step_writes,
)

PAIR = 2
CHOSEN = "chosen"
"""What a phase calls the matrix that says which row of a total each partition belongs to."""


class Printer(Protocol):
    """What prints the steps of a phase."""

    source: Source
    scope: Scope
    cols: str

    def allocate(self, tile: Tile) -> None:
        """`nl.ndarray` for a new tile."""

    def take(self, tile: Tile) -> None:
        """This tile is there already."""

    def print(self, step: Step, level: int) -> None:
        """One step."""


class Region(Protocol):
    """Text of the part of a tensor in HBM that belongs to the current tile."""

    def __call__(self, step: Load | Store) -> str:
        """The text; of rows that are looked up, the whole table."""


@dataclass(frozen=True, slots=True)
class _Phase:
    """Steps of one phase, what it is given, and what it hands on."""

    steps: tuple[Step, ...]
    kept: tuple[str, ...]
    """Tiles that stay in SBUF for all row tiles."""
    parts: tuple[str, ...]
    """Parts of tensors in HBM: those that it or a later phase loads or stores."""
    tiles: tuple[Tile, ...]
    """Tiles that an earlier phase made."""
    hands_on: tuple[str, ...]


@dataclass(slots=True)
class Phases:
    """The phases of a pass over rows."""

    steps: Sequence[Step]
    cuts: Sequence[int]
    row_level: int
    prefix: str
    is_packed: bool = False
    made: Access | None = None
    """What the first phase is given as a tile, in place of a part to load."""
    start: str = ""
    """What the number of a tile's first row is called, where steps need it."""
    has_own_rows: bool = False
    """Whether parts of tensors have another shape than the tiles that they are loaded to."""
    _parts: dict[Access | str, str] = field(default_factory=dict)
    _phases: list[_Phase] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Work out what each phase is given."""
        names: dict[str, int] = {}
        for step in self.steps:
            if isinstance(step, Load | Store) and step.access not in self._parts:
                count = names[step.access.tensor] = names.get(step.access.tensor, 0) + 1
                suffix = "" if count == 1 else f"_{count}"
                is_table = isinstance(step, Load) and step.lookup is not None
                kind = "table" if is_table else "part"
                self._parts[step.access] = f"{step.access.tensor}_{kind}{suffix}"
                if isinstance(step, Load) and step.access == self.made:
                    self._parts[step.access] = step.dst.name
            elif isinstance(step, AddUp):
                self._parts[CHOSEN] = CHOSEN
        bounds = [0, *self.cuts, len(self.steps)]
        for index in range(len(bounds) - 1):
            self._phases.append(self._phase(bounds, index))

    def _phase(self, bounds: list[int], index: int) -> _Phase:
        start, end = bounds[index], bounds[index + 1]
        steps, later = self.steps[start:end], self.steps[end:]
        tiles = self._carried(start)
        # Parts to load are used up in the first phase; those to store wait for theirs.
        rest = self.steps[start:]
        parts = self._given_to(rest)
        stores = self._given_to(later)
        # What an outer loop made is another tile when a later phase runs: it is handed on.
        inside = {t for s in steps for t in step_reads(s)}
        read = [t for s in rest for t in step_reads(s) if t.level < self.row_level]
        kept = [t.name for t in read if (t in inside if t.level == 0 else start == 0)]
        onward = [tile.name for tile in self._carried(end)]
        return _Phase(
            steps=tuple(steps),
            kept=tuple(dict.fromkeys(kept)),
            parts=tuple(dict.fromkeys(parts)),
            tiles=tuple(tiles),
            hands_on=(*dict.fromkeys(stores), *onward) if later else (),
        )

    def _given_to(self, steps: Sequence[Step]) -> list[str]:
        """What steps are given anew at each tile."""
        found = []
        for step in steps:
            if isinstance(step, Load | Store):
                found.append(self._parts[step.access])
            elif isinstance(step, AddUp):
                found.append(CHOSEN)
            elif isinstance(step, Iota | AffineSelect) and self.start:
                found.append(self.start)
        return found

    def _carried(self, cut: int) -> list[Tile]:
        """Tiles made before a cut and read after it, those of outer loops last."""
        if cut == 0:
            return []
        made = {tile for step in self.steps[:cut] for tile in step_writes(step)}
        read = dict.fromkeys(tile for step in self.steps[cut:] for tile in step_reads(step))
        outer = [tile for tile in read if 0 < tile.level < self.row_level]
        return [*(tile for tile in read if tile in made), *outer]

    def name(self, index: int) -> str:
        """The function of a phase."""
        return f"{self.prefix}phase_{index + 1}"

    def define(self, helpers: Source, printer: Printer) -> None:
        """One function for each phase."""
        for index in range(len(self._phases)):
            phase = self._phases[index]
            body = Source(depth=1)
            printer.source = body
            for step in phase.steps:
                self._print(step, printer, body)
            if phase.hands_on:
                body.add(
                    f"return {', '.join(phase.hands_on)}{',' if len(phase.hands_on) == 1 else ''}"
                )
            line, missing = self._sizes(phase, printer.cols, body.text())
            if missing:
                phase = replace(phase, kept=(*phase.kept, *missing))
                self._phases[index] = phase
            factors = printer.scope.given if isinstance(printer.scope, PartScope) else {}
            passed = [n for n in factors if re.search(rf"\b{n}\b", body.text())]
            if passed:
                phase = replace(phase, kept=(*phase.kept, *passed))
                self._phases[index] = phase
            given = [*phase.kept, *phase.parts, *(tile.name for tile in phase.tiles)]
            if index == 0:
                given = [*self._made_name, *(g for g in given if g not in self._made_name)]
            helpers.add()
            helpers.add()
            with helpers.block(f"def {self.name(index)}({', '.join(given)}):"):
                helpers.add(f'"""{_describe(phase, self.made)}"""')
                if line:
                    helpers.add(line)
            helpers.lines.extend(body.lines)

    @property
    def _made_name(self) -> list[str]:
        return [] if self.made is None else [self._parts[self.made]]

    def _print(self, step: Step, printer: Printer, body: Source) -> None:
        match step:
            case Load() if step.access == self.made:
                printer.take(step.dst)
            case Load():
                printer.allocate(step.dst)
                part = looked_up(self._parts[step.access], step)
                body.add(f"nisa.dma_copy(dst={step.dst.name}, src={part})")
            case Store():
                body.add(f"nisa.dma_copy(dst={self._parts[step.access]}, src={step.src.name})")
            case _:
                printer.print(step, self.row_level)

    def _sizes(self, phase: _Phase, cols: str, text: str) -> tuple[str, tuple[str, ...]]:
        """The line that names the sizes that the body uses, and sizes that must be passed in."""
        names = ["rows", "each", cols] if self.is_packed else ["rows", cols]
        used = [name if re.search(rf"\b{name}\b", text) else "_" for name in names]
        if not any(name != "_" for name in used):
            return "", ()
        wide = [t.name for t in phase.tiles if t.is_wide and t.level == self.row_level]
        if self.has_own_rows and not wide:
            return "", tuple(name for name in used if name != "_")
        loads = [step for step in phase.steps if isinstance(step, Load) and step.dst.is_wide]
        wide += [self._parts[step.access] for step in loads if step.lookup is None]
        for step in self.steps:
            if isinstance(step, Store) and step.src.is_wide:
                wide += [p for p in phase.parts if p == self._parts[step.access]]
        if wide:
            return _unpack(used, wide[0]), ()
        if not phase.tiles:
            return "", tuple(name for name in used if name != "_")
        missing = (used[-1],) if used[-1] != "_" else ()
        used[-1] = "_"
        if not any(name != "_" for name in used):
            return "", missing
        return _unpack(used, phase.tiles[0].name), missing

    # -- the loop ---------------------------------------------------------------------------------
    def open(self, source: Source) -> None:
        """Before all loops."""
        source.note("Each phase runs one tile behind the one before it, so that no engine waits.")
        for index in range(1, len(self._phases)):
            source.add(f"before_{index + 1} = []")

    def call(self, source: Source, region: Region, chosen: str = "") -> None:
        """Inside the loop over tiles; `chosen` is the matrix that a total is made with."""
        given = ", ".join(self.given(region, chosen))
        self.advance(source, f"{self.name(0)}({given})")

    def given(self, region: Region, chosen: str = "") -> list[str]:
        """What the first phase is given, but for what is made for it."""
        first = self._phases[0]
        parts: dict[str, str] = {CHOSEN: chosen, self.start: self.start}
        for step in self.steps:
            if isinstance(step, Load | Store):
                parts[self._parts[step.access]] = region(step)
        made = [*self._made_name]
        return [*first.kept, *(parts[part] for part in first.parts if part not in made)]

    def advance(self, source: Source, first: str) -> None:
        """Run the first phase on a new tile, and each other one on what waits for it."""
        source.add(f"before_2.append({first})" if len(self._phases) > 1 else first)
        for index in range(1, len(self._phases)):
            with source.block(f"if len(before_{index + 1}) > 1:"):
                source.add(self._run(index, f"before_{index + 1}.pop(0)"))

    def _run(self, index: int, state: str) -> str:
        given = ", ".join([*self._phases[index].kept, f"*{state}"])
        text = f"{self.name(index)}({given})"
        last = index == len(self._phases) - 1
        return text if last else f"before_{index + 2}.append({text})"

    def drain(self, source: Source) -> None:
        """After all loops: the tiles that still wait, one phase on at each turn."""
        count = len(self._phases)
        if count == PAIR:
            with source.block("for state in before_2:"):
                source.add(self._run(1, "state"))
            return
        with source.block(f"for _ in range({count - 1}):"):
            for index in range(count - 1, 0, -1):
                with source.block(f"for state in before_{index + 1}:"):
                    source.add(self._run(index, "state"))
                source.add(f"before_{index + 1} = []")


def looked_up(text: str, step: Load) -> str:
    """The rows that a load takes out of a table, or the region itself."""
    return text if step.lookup is None else f"{text}.vector_select(0, {step.lookup.index.name})"


def _unpack(names: list[str], source: str) -> str:
    """`rows, cols = tile.shape`, or the one size that is used."""
    used = [index for index, name in enumerate(names) if name != "_"]
    if len(used) == 1:
        return f"{names[used[0]]} = {source}.shape[{used[0]}]"
    return f"{', '.join(names)} = {source}.shape"


def _describe(phase: _Phase, known: Access | None) -> str:
    loads = [
        step.access.tensor
        for step in phase.steps
        if isinstance(step, Load) and step.access != known
    ]
    made = [
        tile.name
        for step in phase.steps
        if not isinstance(step, Load)
        for tile in step_writes(step)
    ]
    stores = [step.access.tensor for step in phase.steps if isinstance(step, Store)]
    words = []
    if loads:
        words.append(f"loads {', '.join(dict.fromkeys(loads))}")
    if made:
        words.append(f"makes {', '.join(dict.fromkeys(made[:_NAMES_SHOWN]))}")
    if stores:
        words.append(f"stores {', '.join(dict.fromkeys(stores))}")
    text = "; ".join(words)
    return f"{text[:1].upper()}{text[1:]}."


_NAMES_SHOWN = 4
