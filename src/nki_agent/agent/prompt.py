"""The rank-aware prompt: the task's tensors, their ranks and folds, the chip's limits, the rules.

Law: words are in the files of `prompts/`, every number and name in them comes from `task`, `chip`
and `isa`; the hash is that of the finished text, so a result says exactly what the model was told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from nki_agent.agent.cards import write_signature
from nki_agent.agent.episode import Limits, Mode
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.check.surface import KEPT, Surface
from nki_agent.chip.spec import ChipSpec, Target, load_chip
from nki_agent.isa.chance import CHANCE
from nki_agent.isa.collective import COLLECTIVE
from nki_agent.isa.control import CONTROL
from nki_agent.isa.declaration import Declaration
from nki_agent.isa.dtype import DType
from nki_agent.isa.gather import GATHER
from nki_agent.isa.microscaling import MICROSCALING
from nki_agent.isa.ops import ACTIVATIONS, ALU_OPS
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.modules import SIGNATURES
from nki_agent.task.sizes_text import hide_odd
from nki_agent.task.task import Argument, Output, StaticArgument, Task, TensorArgument
from nki_agent.task.tolerance import Gate, Tolerance

KIB = 1024
RARE: dict[str, tuple[Declaration, ...]] = {
    "gathers, shuffles and selection": GATHER,
    "random numbers": CHANCE,
    "MX data": MICROSCALING,
    "registers, the two cores, printing": CONTROL,
    "several ranks (`import nki.collectives as ncc`)": COLLECTIVE,
}
"""Instructions that few kernels need: the prompt shows a line for each family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is told before its first turn."""

    mode: Mode
    system: str
    user: str

    @property
    def hash(self) -> str:
        """Short hash of the whole text."""
        return short_hash(hash_text(f"{self.system}\x1f{self.user}"))


def make_prompt(
    task: Task,
    *,
    target: Target,
    mode: Mode,
    limits: Limits,
    surface: Surface = Surface.NKI,
) -> Prompt:
    """The prompt of one task on one target."""
    chip = load_chip(target)
    system = _fill(
        "system.md",
        example=_write_example(surface, chip).strip(),
        functions=_fill(
            f"functions_{surface.value}.md", functions=", ".join(_list_functions())
        ).strip(),
        working=_write_working(mode, limits).strip(),
        target=target.value,
        instructions="\n".join(_write_instructions(chip)),
        operators=", ".join(
            op.name for op in ALU_OPS.values() if op.first_generation <= chip.generation
        ),
        activations=", ".join(ACTIVATIONS),
        dtypes=", ".join(_list_dtypes(chip)),
        generation=chip.generation,
        partitions=chip.partitions,
        sbuf_kib=chip.sbuf_usable_partition_bytes // KIB,
        psum_banks=chip.psum_banks,
        psum_bank_bytes=chip.psum_bank_bytes,
        psum_bank_fp32=chip.psum_bank_bytes // DType.FLOAT32.itemsize,
        stationary_max=chip.matmul_stationary_free_max,
        moving_max=chip.matmul_moving_free_max,
        dma_row_bytes=chip.dma_efficient_descriptor_bytes,
    )
    user = _fill(
        "task.md",
        id=task.id,
        source=hide_odd(task.source).strip(),
        sizes=_write_sizes(task),
        arguments="\n".join(f"- {_write_argument(a, chip)}" for a in task.arguments),
        outputs="\n".join(f"- {_write_output(o, task)}" for o in task.outputs),
    )
    return Prompt(mode=mode, system=system, user=user)


def _write_example(surface: Surface, chip: ChipSpec) -> str:
    """A whole kernel of the surface, and what the surface asks for."""
    return _fill(
        f"example_{surface.value}.md",
        partitions=chip.partitions,
        kept=", ".join(f"`nl.{name}`" for name in sorted(KEPT)),
        sbuf_last=chip.sbuf_usable_partition_bytes - 1,
        psum_bank_bytes=chip.psum_bank_bytes,
        psum_last=(chip.psum_banks - 1) * chip.psum_bank_bytes,
    )


def write_fold(shape: tuple[int, ...], *, partitions: int) -> str:
    """How a tensor of this shape lies on the partitions.

    >>> write_fold((300, 64), partitions=128)
    'rows on the partitions: 3 tiles of [128, 64], the last [44, 64]'
    >>> write_fold((2, 32, 8), partitions=128)
    'fold to [64, 8] with `.reshape((64, 8))`; rows on the partitions: one tile of [64, 8]'
    >>> write_fold((1024,), partitions=128)
    'view it as [128, 8] with `.reshape((128, 8))` for elementwise work, or as a row [1, 1024]'
    """
    rank = len(shape)
    if rank == 1:
        rows = max(p for p in range(1, partitions + 1) if shape[0] % p == 0)
        view = f"[{rows}, {shape[0] // rows}]"
        row = f"a row [1, {shape[0]}]"
        if rows == 1:
            return f"view it as {row} with `.reshape((1, {shape[0]}))`"
        call = f"`.reshape(({rows}, {shape[0] // rows}))`"
        return f"view it as {view} with {call} for elementwise work, or as {row}"
    rows, free = math.prod(shape[:-1]), shape[-1]
    fold = ""
    if rank > len((rows, free)):
        fold = f"fold to [{rows}, {free}] with `.reshape(({rows}, {free}))`; "
    if rows <= partitions:
        return f"{fold}rows on the partitions: one tile of [{rows}, {free}]"
    tiles, tail = math.ceil(rows / partitions), rows % partitions
    last = f", the last [{tail}, {free}]" if tail else ""
    return f"{fold}rows on the partitions: {tiles} tiles of [{partitions}, {free}]{last}"


def _write_sizes(task: Task) -> str:
    """At which shapes a kernel is judged."""
    if len(task.shape_sets) == 1:
        return "These are the only shapes."
    dev, *others = task.shape_sets
    listed = [
        ", ".join(f"`{t.name}` {_shape(t.shape)}" for t in shapes.tensors)
        for shapes in others
        if shapes is task.perf
    ]
    at = f" It is timed at {listed[0]}." if listed else ""
    return (
        f"These are the shapes of `{dev.name}`. The same kernel is traced again at other sizes and"
        f" must be right there too: take every size from the arguments' shapes.{at}"
    )


def _write_argument(argument: Argument, chip: ChipSpec) -> str:
    match argument:
        case StaticArgument():
            return f"`{argument.name}`: the value {argument.value!r}, known while tracing"
        case TensorArgument():
            fold = write_fold(argument.shape, partitions=chip.partitions)
            update = ", updated in place" if argument.is_updated else ""
            return (
                f"`{argument.name}`: {argument.kind.value}, rank {len(argument.shape)},"
                f" shape {_shape(argument.shape)}, {argument.dtype.value}{update}; {fold}"
            )


def _write_output(output: Output, task: Task) -> str:
    tolerance = task.tolerance_of(output)
    shape = f"rank {len(output.shape)}, shape {_shape(output.shape)}, {output.dtype.value}"
    return f"`{output.name}`: {shape}; {_write_gate(tolerance)}"


def _write_gate(tolerance: Tolerance) -> str:
    match tolerance.gate:
        case Gate.EXACT:
            return "equal element for element"
        case Gate.CODES:
            return "equal codes, or one step off near a tie"
        case Gate.REAL:
            return f"relative L2 error at most {tolerance.rel_l2:g}"


def _write_working(mode: Mode, limits: Limits) -> str:
    match mode:
        case Mode.LOOP:
            return _fill("loop.md", turns=limits.turns)
        case Mode.SINGLE_SHOT:
            return _fill("single_shot.md")


def _write_instructions(chip: ChipSpec) -> Iterator[str]:
    rare = {declaration.name for family in RARE.values() for declaration in family}
    for declaration in TABLE.values():
        if declaration.first_generation <= chip.generation and declaration.name not in rare:
            yield f"- {write_signature(declaration.page)}"
    for title, family in RARE.items():
        calls = [
            f"`{write_signature(declaration.page, is_brief=True)}`"
            for declaration in family
            if declaration.first_generation <= chip.generation
        ]
        if calls:
            yield f"- {title}: {', '.join(calls)}"


def _list_functions() -> Iterator[str]:
    """Functions of `nl` that are neither an operator nor an activation."""
    for full in SIGNATURES:
        name = full.removeprefix("nki.language.")
        if name != full and not any(name in names for names in (ALU_OPS, ACTIVATIONS, TABLE)):
            yield name


def _list_dtypes(chip: ChipSpec) -> Iterator[str]:
    """Packed formats are of use only where MX instructions are."""
    has_packed = any(d.first_generation <= chip.generation for d in MICROSCALING)
    return (dtype.value for dtype in DType if has_packed or not dtype.is_packed)


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _fill(name: str, **values: object) -> str:
    text = files("nki_agent.agent").joinpath("prompts", name).read_text(encoding="utf-8")
    return Template(text).substitute({key: str(value) for key, value in values.items()})
