"""What a model is told first: rank-aware, with ranks, folds, tile plan, limits and rules, or plain.

Law: words are in the files of `prompts/`, every number and name in them comes from `task`, `chip`
and `isa`; the hash is that of the finished text, so a result says exactly what the model was told.
`prompts/versions.toml` numbers the words: they don't change without a new version.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from nki_agent.agent.ablation import Ablation, PromptKind, Tool
from nki_agent.agent.cards import write_signature
from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.plan import write_plan
from nki_agent.agent.short import write_short_task
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
JUDGES = (Tool.VERIFY, Tool.COMPILE)
"""Tools that a kernel goes to first; the best one that there is."""
HAND_IN = "Give the whole kernel file to `submit`."


WHOLE = Ablation()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a model is told before its first turn."""

    mode: Mode
    system: str
    user: str
    version: int = 0
    """Of the words; the numbers in them are the task's and the chip's."""

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
    ablation: Ablation = WHOLE,
    surface: Surface = Surface.NKI,
) -> Prompt:
    """The prompt of one task on one target, with the tools that are offered."""
    working = _write_working(mode, limits, ablation.tools).strip()
    user = _write_task(task)
    version = read_versions().version
    match ablation.prompt:
        case PromptKind.RANK_AWARE:
            system = _write_rank_aware(task, target=target, surface=surface, working=working)
            return Prompt(mode=mode, system=system, user=user, version=version)
        case PromptKind.PLAIN:
            system = _write_plain(target=target, surface=surface, working=working)
            return Prompt(mode=mode, system=system, user=user, version=version)
        case PromptKind.SHORT:
            system, user = _read("short.md").strip(), write_short_task(task)
            return Prompt(mode=mode, system=system, user=user, version=version)


def write_brief(task: Task, *, target: Target, surface: Surface = Surface.NKI) -> str:
    """The task, and how its tensors lie on the target, for an agent with a prompt of its own."""
    chip = load_chip(target)
    parts = [_write_task(task).strip(), f"# Layout on {target.value}", *write_plan(task, chip)]
    match surface:
        case Surface.NKI:
            pass
        case Surface.ISA:
            parts += ["", "# The form of the kernel", _write_example(surface, chip)]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The number of the prompts' words, and the hash of each file that it stands for."""

    version: int
    files: Mapping[str, str]

    def __str__(self) -> str:
        """For the config of a run: `2 (0123456789ab)`."""
        both = "".join(f"{name}:{digits}" for name, digits in sorted(self.files.items()))
        return f"{self.version} ({short_hash(hash_text(both))})"


@cache
def read_versions() -> Versions:
    """What `versions.toml` says."""
    return Versions(**tomllib.loads(_read("versions.toml")))


def hash_prompts() -> dict[str, str]:
    """The hashes of the files as they are."""
    folder = files("nki_agent.agent").joinpath("prompts")
    names = sorted(path.name for path in folder.iterdir() if path.name.endswith(".md"))
    return {name: short_hash(hash_text(_read(name))) for name in names}


def _write_rank_aware(task: Task, *, target: Target, surface: Surface, working: str) -> str:
    chip = load_chip(target)
    return _fill(
        "rank_aware.md",
        working=working,
        example=_write_example(surface, chip),
        functions=_fill(
            f"functions_{surface.value}.md", functions=", ".join(_list_functions())
        ).strip(),
        target=target.value,
        plan="\n".join(write_plan(task, chip)),
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


def _write_example(surface: Surface, chip: ChipSpec) -> str:
    """A whole kernel of the surface, and what the surface asks for."""
    return _fill(
        f"example_{surface.value}.md",
        partitions=chip.partitions,
        kept=", ".join(f"`nl.{name}`" for name in sorted(KEPT)),
        sbuf_last=chip.sbuf_usable_partition_bytes - 1,
        psum_bank_bytes=chip.psum_bank_bytes,
        psum_last=(chip.psum_banks - 1) * chip.psum_bank_bytes,
    ).strip()


def _write_plain(*, target: Target, surface: Surface, working: str) -> str:
    """Without the chip; but a surface that refuses kernels has to say for what."""
    asked = ""
    match surface:
        case Surface.NKI:
            pass
        case Surface.ISA:
            asked = f"\n{_write_example(surface, load_chip(target))}\n"
    return _fill("plain.md", working=working, target=target.value, surface=asked)


def _write_task(task: Task) -> str:
    return _fill(
        "task.md",
        id=task.id,
        source=hide_odd(task.source).strip(),
        sizes=_write_sizes(task),
        arguments="\n".join(f"- {_write_argument(a)}" for a in task.arguments),
        outputs="\n".join(f"- {_write_output(o, task)}" for o in task.outputs),
    )


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


def _write_argument(argument: Argument) -> str:
    match argument:
        case StaticArgument():
            return f"`{argument.name}`: the value {argument.value!r}, known while tracing"
        case TensorArgument():
            update = ", updated in place" if argument.is_updated else ""
            return (
                f"`{argument.name}`: {argument.kind.value}, shape {_shape(argument.shape)},"
                f" {argument.dtype.value}{update}"
            )


def _write_output(output: Output, task: Task) -> str:
    tolerance = task.tolerance_of(output)
    shape = f"shape {_shape(output.shape)}, {output.dtype.value}"
    return f"`{output.name}`: {shape}; {_write_gate(tolerance)}"


def _write_gate(tolerance: Tolerance) -> str:
    match tolerance.gate:
        case Gate.EXACT:
            return "equal element for element"
        case Gate.CODES:
            return "equal codes, or one step off near a tie"
        case Gate.REAL:
            return f"relative L2 error at most {tolerance.rel_l2:g}"


def _write_working(mode: Mode, limits: Limits, tools: tuple[Tool, ...]) -> str:
    if mode is Mode.SINGLE_SHOT or not tools:
        return _fill("single_shot.md")
    sentences = dict(line.split(": ", 1) for line in _read("tools.md").splitlines())
    judge = next((tool for tool in JUDGES if tool in tools), None)
    return _fill(
        "working.md",
        turns=limits.turns,
        judge=HAND_IN if judge is None else sentences[judge],
        others=" ".join(sentences[tool] for tool in tools if tool not in JUDGES),
    )


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
    return Template(_read(name)).substitute({key: str(value) for key, value in values.items()})


def _read(name: str) -> str:
    return files("nki_agent.agent").joinpath("prompts", name).read_text(encoding="utf-8")
