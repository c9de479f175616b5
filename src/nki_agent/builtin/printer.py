"""Prints a plan as the source of a kernel in the current dialect.

Law: the text is what an engineer would write: sizes from shapes, loops with clipped tails, one
function for each stage. It depends on the plan alone.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence

from nki_agent.builtin.chain_plan import ChainPlan
from nki_agent.builtin.picks import PIECE
from nki_agent.builtin.plan import (
    Argument,
    AttentionPlan,
    BagPlan,
    Buffer,
    ByIndexPlan,
    ConvolutionPlan,
    FoldPlan,
    MatmulPlan,
    Matrix,
    PickPlan,
    Plan,
    PoolPlan,
    RankPlan,
    RowsPlan,
    RunningPlan,
    Stage,
    TransposePlan,
)
from nki_agent.builtin.print_attention import AttentionPrinter
from nki_agent.builtin.print_bags import BagPrinter
from nki_agent.builtin.print_chain import ChainPrinter, chain_helpers
from nki_agent.builtin.print_convolution import ConvolutionPrinter
from nki_agent.builtin.print_counts import CountPrinter, counts_alone
from nki_agent.builtin.print_decayed_sum import DecayedSumPrinter, product_run_helpers
from nki_agent.builtin.print_delta_rule import DeltaRulePrinter
from nki_agent.builtin.print_depthwise import DepthwisePrinter
from nki_agent.builtin.print_folds import FoldPrinter, fold_helpers
from nki_agent.builtin.print_lanes import LanesPrinter
from nki_agent.builtin.print_matmul import MatmulPrinter
from nki_agent.builtin.print_network import FIND, SORT
from nki_agent.builtin.print_over_rows import OverRowsPrinter
from nki_agent.builtin.print_picks import LOCALS, PickPrinter, RunningPrinter, takes_runs
from nki_agent.builtin.print_pool import PoolPrinter
from nki_agent.builtin.print_pooled import PooledPrinter
from nki_agent.builtin.print_product_rows import ProductRowsPrinter
from nki_agent.builtin.print_products import (
    TransposePrinter,
    helpers_of,
)
from nki_agent.builtin.print_ranks import BEHIND, LOWEST, RANK, RANK_GROUPS, RankPrinter
from nki_agent.builtin.print_reorders import ReorderPrinter
from nki_agent.builtin.print_resident import ResidentPrinter, resident_helpers
from nki_agent.builtin.print_resident_rows import ResidentRowsPrinter, resident_rows_helpers
from nki_agent.builtin.print_rows import FLAT_HELPER, PACKED_HELPER, TIME, RowsPrinter
from nki_agent.builtin.print_shared_lines import SharedLinesPrinter
from nki_agent.builtin.print_shared_planes import SharedPlanesPrinter
from nki_agent.builtin.print_shared_tiles import SharedTilesPrinter
from nki_agent.builtin.print_short_products import (
    ShortProductPrinter,
    has_short_results,
    short_product_helpers,
)
from nki_agent.builtin.print_short_transpose import BlockTransposePrinter, ShortTransposePrinter
from nki_agent.builtin.print_small_attention import (
    SmallAttentionPrinter,
    small_attention_helpers,
)
from nki_agent.builtin.print_small_products import SmallProductPrinter
from nki_agent.builtin.print_stacked_rows import StackedRowsPrinter
from nki_agent.builtin.print_transposed import TransposedPrinter
from nki_agent.builtin.print_turned_attention import TurnedAttentionPrinter
from nki_agent.builtin.reorder_plan import ReorderPlan
from nki_agent.builtin.resident_plan import (
    DecayedSumPlan,
    DeltaRulePlan,
    Resident,
    ResidentPlan,
    ResidentRowsPlan,
)
from nki_agent.builtin.row_halves import FOLD_ROWS, has_halves
from nki_agent.builtin.shared_functions import SharedFunctions
from nki_agent.builtin.small_attention_plan import SmallAttentionPlan
from nki_agent.builtin.small_product_plan import SmallProductPlan
from nki_agent.builtin.stage_tensors import stage_reads, stage_writes
from nki_agent.builtin.text import Scope, Source
from nki_agent.builtin.tile_steps import Size
from nki_agent.builtin.turned_tables import (
    CORE,
    TurnedTablePrinter,
    takes_turned,
    turned_table_helpers,
)
from nki_agent.builtin.window_text import window_helpers

WITH_PSUM = (
    *(MatmulPlan, AttentionPlan, TransposePlan, FoldPlan, ConvolutionPlan),
    *(PickPlan, ResidentPlan, ChainPlan, SmallProductPlan),
    *(SmallAttentionPlan, DeltaRulePlan, DecayedSumPlan),
)
"""Stages whose text speaks of PSUM banks."""


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
    numbers = {a.name: a.number for a in plan.arguments if a.number is not None}
    body = Source(depth=1)
    _buffers(plan, body)
    if len(plan.stages) == 1 and not _hides_names(plan.stages[0]):
        stage = plan.stages[0]
        tensors = [*stage_reads(stage), *stage_writes(stage)]
        scope = Scope({n: shapes[n] for n in tensors}, others=shapes, numbers=numbers)
        _stage(stage, body, scope, helpers=source, prefix="")
    else:
        shared = SharedFunctions()
        calls: list[str] = []
        for index, stage in enumerate(plan.stages):
            text = Source()
            given = _stage_function(index, stage, text, Scope(shapes, numbers=numbers))
            name = shared.find(text.lines, given, index=index, name=stage_name(index, stage))
            if name is None:
                name = stage_name(index, stage)
                source.lines.extend(text.lines)
            calls.append(f"{name}({', '.join(given)})")
        _calls(plan, body, Scope(shapes, numbers=numbers), calls)
    for argument, made in plan.updates:
        body.add(f"nisa.dma_copy(dst={argument}, src={made})")
    if plan.results:
        body.add(f"return {', '.join(plan.results)}")
    source.add()
    source.add()
    source.add("@nki.jit")
    source.add(f"def kernel({', '.join(a.name for a in plan.arguments)}):")
    source.lines.extend(without_unused(body.lines))
    return source.text()


def _calls(plan: Plan, body: Source, scope: Scope, calls: Sequence[str]) -> None:
    """All stages in order, those of a loop over time once for each step."""
    spans = {span.start: span for span in plan.loops}
    index = 0
    while index < len(plan.stages):
        span = spans.get(index)
        loop: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if span is not None:
            loop = body.block(f"for {TIME} in range({scope.size(span.steps)}):")
        with loop:
            for number in range(index, span.end if span is not None else index + 1):
                body.add(calls[number])
        index = span.end if span is not None else index + 1


def _tensors(stage: Stage) -> list[str]:
    """Each tensor once: a state is read and written."""
    return list(dict.fromkeys([*stage_reads(stage), *stage_writes(stage)]))


def is_step(stage: Stage) -> bool:
    """Whether a stage is one step of a loop over time."""
    return isinstance(stage, RowsPlan | MatmulPlan | TransposePlan) and stage.is_step


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
    if any(isinstance(s, WITH_PSUM) or _adds_up(s) or takes_turned(s) for s in plan.stages):
        source.add(f"BANK = {plan.bank_cols}  # float32 columns of one PSUM bank")
    source.lines.extend([CORE] * any(takes_turned(s) for s in plan.stages))
    ranks = {s.is_network for s in plan.stages if isinstance(s, RankPlan)}
    finds = any(isinstance(s, RankPlan) and s.is_network and s.places for s in plan.stages)
    if False in ranks or finds:
        source.add(LOWEST)
    if False in ranks:
        if any(isinstance(s, RankPlan) and s.group > 1 for s in plan.stages):
            source.add(BEHIND)
        source.add(f"PIECE = {PIECE}  # columns that one search takes")
    helpers = helpers_of(plan)
    helpers += short_product_helpers(plan) + window_helpers(plan) + fold_helpers(plan)
    helpers += (
        small_attention_helpers(plan)
        + chain_helpers(plan)
        + resident_helpers(plan)
        + resident_rows_helpers(plan)
        + product_run_helpers(plan)
    )
    helpers += [RANK] * (False in ranks) + [SORT] * (True in ranks) + [FIND] * finds
    if any(isinstance(s, RankPlan) and s.group > 1 for s in plan.stages):
        helpers.append(RANK_GROUPS)
    helpers += turned_table_helpers(plan)
    for helper in (*helpers, *_row_helpers(plan)):
        source.add()
        source.add()
        source.lines.extend(helper.rstrip().splitlines())


def _row_helpers(plan: Plan) -> list[str]:
    """What passes over rows call."""
    helpers = [FOLD_ROWS] * any(has_halves(s) for s in plan.stages)
    helpers += [FLAT_HELPER] * any(isinstance(s, RowsPlan) and s.is_flat for s in plan.stages)
    return helpers + [PACKED_HELPER] * any(is_packed(s) for s in plan.stages)


def _adds_up(stage: Stage) -> bool:
    """Whether a pass over rows makes a total, or sums down its columns, by products."""
    if not isinstance(stage, RowsPlan):
        return False
    return bool(stage.sums) or (stage.total is not None and stage.total.is_by_products)


def is_packed(stage: Stage) -> bool:
    """Whether a stage takes several rows in each partition."""
    if takes_turned(stage):
        return True
    if isinstance(stage, PickPlan):
        is_packed_pick = stage.is_one_hot or counts_alone(stage) or takes_runs(stage)
        is_filled = stage.function == "put_rows" and not isinstance(stage.table, Matrix)
        return is_packed_pick or is_filled or stage.function in ("mark_cols", "add_rows")
    if isinstance(stage, RowsPlan) and stage.has_middle:
        return False
    if isinstance(stage, RowsPlan | RankPlan | TransposePlan):
        return stage.rows_each is not None
    return False


def stage_name(index: int, stage: Stage) -> str:
    """The name of a stage's function."""
    words = "".join(c if c.isalnum() else "_" for c in stage.title.split(",")[0].lower()).strip("_")
    return f"stage_{index + 1}_{words}" if words else f"stage_{index + 1}"


def _stage_function(index: int, stage: Stage, source: Source, whole: Scope) -> list[str]:
    """Print it; the arguments that it takes. `whole` has all tensors and numbers."""
    tensors = _tensors(stage)
    body = Source(depth=1)
    scope = Scope(
        {name: whole.shapes[name] for name in tensors}, others=whole.shapes, numbers=whole.numbers
    )
    _stage(stage, body, scope, helpers=source, prefix=f"stage_{index + 1}_")
    lines = without_unused(body.lines)
    text = "\n".join(lines)
    tensors += [name for name in scope.borrowed if re.search(rf"\b{name}\b", text)]
    source.add()
    source.add()
    given = [*tensors, *([TIME] if is_step(stage) else [])]
    source.add(f"def {stage_name(index, stage)}({', '.join(given)}):")
    source.add(f'    """{stage.title[:1].upper()}{stage.title[1:]}."""')
    source.lines.extend(lines)
    return given


def _stage(stage: Stage, source: Source, scope: Scope, *, helpers: Source, prefix: str) -> None:
    match stage:
        case RowsPlan():
            rows = _rows_printer(stage)
            rows(stage, source, scope, helpers=helpers, prefix=prefix).print()
        case MatmulPlan():
            _matmul_printer(stage)(stage, source, scope, helpers=helpers, prefix=prefix).print()
        case TransposePlan():
            _transpose_printer(stage)(stage, source, scope).print()
        case FoldPlan():
            FoldPrinter(stage, source, scope).print()
        case ConvolutionPlan():
            printer = _convolution_printer(stage)
            printer(stage, source, scope, helpers=helpers, prefix=prefix).print()
        case AttentionPlan():
            attention = TurnedAttentionPrinter if stage.is_turned else AttentionPrinter
            attention(stage, source, scope, helpers=helpers, prefix=prefix).print()
        case SmallAttentionPlan():
            small = SmallAttentionPrinter
            small(stage, source, scope, helpers=helpers, prefix=prefix).print()
        case ChainPlan():
            ChainPrinter(stage, source, scope, helpers=helpers, prefix=prefix).print()
        case _:
            _plain_stage(stage, source, scope)


def _matmul_printer(plan: MatmulPlan) -> type[MatmulPrinter]:
    if plan.tail is not None:
        return ProductRowsPrinter
    return ShortProductPrinter if has_short_results(plan) else MatmulPrinter


def _rows_printer(stage: RowsPlan) -> type[RowsPrinter]:
    if stage.is_stacked:
        return StackedRowsPrinter
    is_over_rows = stage.total is not None and stage.total.is_over_rows
    return OverRowsPrinter if is_over_rows else RowsPrinter


def _plain_stage(
    stage: PoolPlan | SmallProductPlan | ReorderPlan | Resident | ByIndexPlan,
    source: Source,
    scope: Scope,
) -> None:
    """A stage that needs no functions of its own."""
    match stage:
        case PoolPlan():
            PoolPrinter(stage, source, scope).print()
        case ReorderPlan():
            ReorderPrinter(stage, source, scope).print()
        case SmallProductPlan():
            SmallProductPrinter(stage, source, scope).print()
        case ResidentPlan():
            ResidentPrinter(stage, source, scope).print()
        case ResidentRowsPlan():
            ResidentRowsPrinter(stage, source, scope).print()
        case DeltaRulePlan():
            DeltaRulePrinter(stage, source, scope).print()
        case DecayedSumPlan():
            DecayedSumPrinter(stage, source, scope).print()
        case _:
            _by_index(stage, source, scope)


def _transpose_printer(plan: TransposePlan) -> type[TransposePrinter]:
    """How it is tiled."""
    if plan.is_blocked:
        return BlockTransposePrinter
    return TransposePrinter if plan.rows_each is None else ShortTransposePrinter


def _convolution_printer(plan: ConvolutionPlan) -> type[ConvolutionPrinter] | type[LanesPrinter]:
    """How its sum is made."""
    if plan.is_transposed:
        return TransposedPrinter
    if plan.mixing == "depthwise":
        return DepthwisePrinter if plan.lanes is None else LanesPrinter
    if plan.pool is not None:
        return PooledPrinter
    if plan.tiles_each > 1:
        return SharedTilesPrinter
    if plan.planes_each > 1:
        return SharedPlanesPrinter
    return SharedLinesPrinter if plan.lines_each > 1 else ConvolutionPrinter


def _by_index(stage: ByIndexPlan, source: Source, scope: Scope) -> None:
    match stage:
        case PickPlan() | BagPlan() if stage.is_turned:
            TurnedTablePrinter(stage, source, scope).print()
        case PickPlan() if counts_alone(stage):
            CountPrinter(stage, source, scope).print()
        case PickPlan():
            PickPrinter(stage, source, scope).print()
        case RankPlan():
            RankPrinter(stage, source, scope).print()
        case RunningPlan():
            RunningPrinter(stage, source, scope).print()
        case BagPlan():
            BagPrinter(stage, source, scope).print()


def _buffers(plan: Plan, source: Source) -> None:
    arguments = {a.name: a for a in plan.arguments}
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
    numbers = {name: a.number for name, a in arguments.items() if a.number is not None}
    for name, argument in arguments.items():
        if argument.shape == buffer.shape and not buffer.cols_of:
            return f"{name}.shape"
    scope = Scope(known, numbers=numbers)
    parts = [scope.from_shapes(size) for size in buffer.shape[:-1]]
    owner = buffer.cols_of.removeprefix("-")
    from_last = owner != buffer.cols_of or not owner
    parts.append(scope.from_shapes(buffer.shape[-1], owner, from_last=from_last))
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
