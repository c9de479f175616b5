"""Prints a plan as the source of a kernel in the current dialect.

Law: the text is what an engineer would write: sizes from shapes, loops with clipped tails, one
function for each stage. It depends on the plan alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nki_agent.builtin.picks import PIECE
from nki_agent.builtin.plan import (
    Argument,
    AttentionPlan,
    BagPlan,
    Buffer,
    ByIndexPlan,
    InterleavePlan,
    Load,
    MatmulPlan,
    Matrix,
    PickPlan,
    Plan,
    RankPlan,
    RowsPlan,
    RunningPlan,
    Size,
    Stage,
    Store,
    TransposePlan,
)
from nki_agent.builtin.print_attention import AttentionPrinter
from nki_agent.builtin.print_matmul import MatmulPrinter
from nki_agent.builtin.print_mixes import BagPrinter, InterleavePrinter
from nki_agent.builtin.print_picks import LOCALS, PickPrinter, RunningPrinter
from nki_agent.builtin.print_products import (
    TransposePrinter,
    helpers_of,
)
from nki_agent.builtin.print_ranks import LOWEST, RANK, RankPrinter
from nki_agent.builtin.print_rows import FLAT_HELPER, PACKED_HELPER, RowsPrinter
from nki_agent.builtin.text import Scope, Source


def print_plan(plan: Plan, *, title: str) -> str:
    """The whole kernel file."""
    source = Source()
    source.add(f'"""{title}"""')
    source.add()
    source.add("import nki")
    source.add("import nki.isa as nisa")
    source.add("import nki.language as nl")
    source.add()
    _constants(plan, source)
    shapes = {a.name: a.shape for a in plan.arguments if a.shape is not None}
    shapes |= {b.name: b.shape for b in plan.buffers}
    body = Source(depth=1)
    _buffers(plan, body)
    if len(plan.stages) == 1 and not _hides_names(plan.stages[0]):
        stage = plan.stages[0]
        tensors = [*stage_reads(stage), *stage_writes(stage)]
        scope = Scope({n: shapes[n] for n in tensors}, others=shapes)
        _stage(stage, body, scope, helpers=source, prefix="")
    else:
        for index, stage in enumerate(plan.stages):
            tensors = _stage_function(index, stage, source, shapes)
            body.add(f"{stage_name(index, stage)}({', '.join(tensors)})")
    body.add(f"return {', '.join(plan.results)}")
    source.add()
    source.add()
    source.add("@nki.jit")
    source.add(f"def kernel({', '.join(a.name for a in plan.arguments)}):")
    source.lines.extend(without_unused(body.lines))
    return source.text()


def _hides_names(stage: Stage) -> bool:
    """Whether a stage has names of its own that are names of tensors too."""
    is_pick = isinstance(stage, ByIndexPlan)
    return is_pick and bool(LOCALS & {*stage_reads(stage), *stage_writes(stage)})


_SIZE = re.compile(r"^ {4}(\w+) = ")


def without_unused(lines: Sequence[str]) -> list[str]:
    """A function body without the sizes that nothing in it needs."""
    kept = list(lines)
    while True:
        text = "\n".join(kept)
        for index, line in enumerate(kept):
            found = _SIZE.match(line)
            if found and "nl." not in line and len(re.findall(rf"\b{found[1]}\b", text)) == 1:
                del kept[index]
                break
        else:
            return kept


def _constants(plan: Plan, source: Source) -> None:
    source.add(f"PARTITIONS = {plan.partitions}")
    blocks = {s.col_block for s in plan.stages if isinstance(s, RowsPlan) and s.col_block}
    if blocks:
        source.add(f"COL_BLOCK = {min(blocks)}  # columns of one tile")
    if any(
        isinstance(s, MatmulPlan | AttentionPlan | TransposePlan | PickPlan) for s in plan.stages
    ):
        source.add(f"BANK = {plan.bank_cols}  # float32 columns of one PSUM bank")
    if any(isinstance(s, RankPlan) for s in plan.stages):
        source.add(LOWEST)
        source.add(f"PIECE = {PIECE}  # columns that one search takes")
    helpers = helpers_of(plan)
    if any(isinstance(s, RankPlan) for s in plan.stages):
        helpers.append(RANK)
    if any(isinstance(s, RowsPlan) and s.is_flat for s in plan.stages):
        helpers.append(FLAT_HELPER)
    if any(is_packed(s) for s in plan.stages):
        helpers.append(PACKED_HELPER)
    for helper in helpers:
        source.add()
        source.add()
        source.lines.extend(helper.rstrip().splitlines())


def is_packed(stage: Stage) -> bool:
    """Whether a stage takes several rows in each partition."""
    if isinstance(stage, PickPlan):
        return stage.is_one_hot or stage.function == "mark_cols"
    return isinstance(stage, RowsPlan | RankPlan) and stage.rows_each is not None


def stage_reads(stage: Stage) -> list[str]:
    """Tensors in HBM that a stage reads, in order of first use, the largest first."""
    found: list[str]
    match stage:
        case RowsPlan():
            loads = [s for s in stage.steps if isinstance(s, Load)]
            found = [s.access.tensor for s in loads if s.dst.is_wide and any(s.access.strides[0])]
            found += [s.access.tensor for s in loads]
        case MatmulPlan():
            found = [stage.x.tensor, stage.w.tensor]
            found += [
                s.access.tensor for level in stage.levels for s in level if isinstance(s, Load)
            ]
        case TransposePlan():
            found = [stage.source.tensor]
        case AttentionPlan():
            found = [stage.q.tensor, stage.k.tensor, stage.v.tensor]
            found += [stage.mask.tensor] if stage.mask is not None else []
        case PickPlan():
            operands = (stage.table, stage.index, stage.rows)
            found = [m.tensor for m in operands if isinstance(m, Matrix)]
        case RankPlan() | RunningPlan():
            found = [stage.source.tensor]
        case BagPlan():
            found = [stage.table.tensor, stage.index.tensor, stage.weight.tensor]
        case InterleavePlan():
            found = [part.tensor for part in stage.parts]
    return list(dict.fromkeys(found))


def stage_writes(stage: Stage) -> list[str]:
    """Tensors in HBM that a stage writes."""
    found: list[str]
    match stage:
        case RowsPlan():
            found = [s.access.tensor for s in stage.steps if isinstance(s, Store)]
        case MatmulPlan():
            found = [
                s.access.tensor for level in stage.levels for s in level if isinstance(s, Store)
            ]
        case TransposePlan():
            found = [stage.target.tensor]
        case AttentionPlan() | PickPlan() | RunningPlan() | BagPlan() | InterleavePlan():
            found = [stage.out.tensor]
        case RankPlan():
            found = [m.tensor for m in (stage.values, stage.places) if m is not None]
    return list(dict.fromkeys(found))


def stage_name(index: int, stage: Stage) -> str:
    """The name of a stage's function."""
    words = "".join(c if c.isalnum() else "_" for c in stage.title.split(",")[0].lower()).strip("_")
    return f"stage_{index + 1}_{words}" if words else f"stage_{index + 1}"


def _stage_function(
    index: int, stage: Stage, source: Source, shapes: Mapping[str, tuple[Size, ...]]
) -> list[str]:
    """Print it; the tensors that it takes."""
    tensors = [*stage_reads(stage), *stage_writes(stage)]
    body = Source(depth=1)
    scope = Scope({name: shapes[name] for name in tensors}, others=shapes)
    _stage(stage, body, scope, helpers=source, prefix=f"stage_{index + 1}_")
    lines = without_unused(body.lines)
    text = "\n".join(lines)
    tensors += [name for name in scope.borrowed if f"{name}.shape" in text]
    source.add()
    source.add()
    source.add(f"def {stage_name(index, stage)}({', '.join(tensors)}):")
    source.add(f'    """{stage.title[:1].upper()}{stage.title[1:]}."""')
    source.lines.extend(lines)
    return tensors


def _stage(stage: Stage, source: Source, scope: Scope, *, helpers: Source, prefix: str) -> None:
    match stage:
        case RowsPlan():
            RowsPrinter(stage, source, scope, helpers=helpers, prefix=prefix).print()
        case MatmulPlan():
            MatmulPrinter(stage, source, scope, helpers=helpers, prefix=prefix).print()
        case TransposePlan():
            TransposePrinter(stage, source, scope).print()
        case AttentionPlan():
            AttentionPrinter(stage, source, scope, helpers=helpers, prefix=prefix).print()
        case PickPlan():
            PickPrinter(stage, source, scope).print()
        case RankPlan():
            RankPrinter(stage, source, scope).print()
        case RunningPlan():
            RunningPrinter(stage, source, scope).print()
        case BagPlan():
            BagPrinter(stage, source, scope).print()
        case InterleavePlan():
            InterleavePrinter(stage, source, scope).print()


def _buffers(plan: Plan, source: Source) -> None:
    arguments = {a.name: a for a in plan.arguments if a.shape is not None}
    known: dict[str, tuple[Size, ...]] = {
        a.name: a.shape for a in plan.arguments if a.shape is not None
    }
    for buffer in plan.buffers:
        memory = "shared_hbm" if buffer.is_result else "private_hbm"
        shape = _shape_text(buffer, arguments, known)
        dtype = f"nl.{buffer.dtype.value}"
        source.add(f"{buffer.name} = nl.ndarray({shape}, dtype={dtype}, buffer=nl.{memory})")
        known[buffer.name] = buffer.shape


def _shape_text(
    buffer: Buffer, arguments: Mapping[str, Argument], known: Mapping[str, tuple[Size, ...]]
) -> str:
    for name, argument in arguments.items():
        if argument.shape == buffer.shape and not buffer.cols_of:
            return f"{name}.shape"
    scope = Scope(known)
    parts = [scope.from_shapes(size) for size in buffer.shape[:-1]]
    owner = buffer.cols_of.removeprefix("-")
    from_last = owner != buffer.cols_of or not owner
    parts.append(scope.from_shapes(buffer.shape[-1], owner, from_last=from_last))
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
