"""Attention that reads keys and values in the pages where they lie.

Law: pages that are copied one after the other only to be the keys and values of one attention are
not copied: each is loaded by its number, whole rows of all heads, and never goes through HBM again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from nki_agent.builtin.attention_sources import Pages
from nki_agent.builtin.plan import AttentionPlan, Matrix, PickPlan, Stage
from nki_agent.builtin.print_products import swap_axes
from nki_agent.builtin.stage_tensors import stage_reads
from nki_agent.builtin.tile_steps import Access, Size
from nki_agent.chip.spec import ChipSpec

PAGES_SHARE = 0.5
"""Part of SBUF for the rows of two sequences: those of the next are loaded meanwhile."""
SEQUENCES_HELD = 2


def join_pages(stages: Sequence[Stage], *, kept: Collection[str], chip: ChipSpec) -> list[Stage]:
    """The stages, where attention reads pages that were only copied for it."""
    found = list(stages)
    taken = {s.out.tensor: s for s in stages if isinstance(s, PickPlan) and _takes_pages(s)}
    for index, stage in enumerate(stages):
        if not isinstance(stage, AttentionPlan):
            continue
        copies = (stage.k.tensor, stage.v.tensor)
        others = {name for s in stages if s is not stage for name in stage_reads(s)}
        if any(name not in taken or name in kept or name in others for name in copies):
            continue
        paged = _read_pages(stage, taken, chip)
        if paged is not None:
            found[index] = paged
            gone = [taken[name] for name in copies]
            found = [s for s in found if not any(s is copy for copy in gone)]
            break
    return found


def _takes_pages(plan: PickPlan) -> bool:
    """Whether a stage only takes rows of a table."""
    is_plain = plan.taken is None and plan.weight is None and not plan.is_turned
    return plan.function == "take_rows" and isinstance(plan.table, Matrix) and is_plain


def _read_pages(
    plan: AttentionPlan, taken: Mapping[str, PickPlan], chip: ChipSpec
) -> AttentionPlan | None:
    """The attention that loads pages; None where they are no whole rows of all its heads."""
    keys, values = taken[plan.k.tensor], taken[plan.v.tensor]
    assert isinstance(keys.table, Matrix)
    assert isinstance(values.table, Matrix)
    is_plain = not (plan.is_turned or plan.is_shared or plan.loads_rows)
    is_plain &= plan.slope is None and plan.mask is None and len(plan.batch) == len(("i", "j"))
    dtypes = {plan.dtype, plan.value_dtype, keys.table.dtype, values.table.dtype}
    if not is_plain or len(dtypes) > 1 or keys.index != values.index:
        return None
    key_page = _page(swap_axes(plan.k), plan, plan.depth, keys.out.cols)
    value_page = _page(plan.v, plan, plan.value_depth, values.out.cols)
    if key_page is None or value_page is None or key_page[0] != value_page[0]:
        return None
    (length, key_row), (_, value_row) = key_page, value_page
    for num_keys, *rows in zip(plan.keys, key_row, value_row, strict=True):
        tiles = SEQUENCES_HELD * -(-num_keys // chip.partitions)
        room = chip.sbuf_usable_partition_bytes * PAGES_SHARE
        if tiles * sum(rows) * plan.dtype.itemsize > room:
            return None
    return replace(
        plan,
        k=replace(plan.k, tensor=keys.table.tensor),
        v=replace(plan.v, tensor=values.table.tensor),
        loads_rows=True,
        has_runs=False,
        pages=Pages(index=keys.index.tensor, length=length, key_row=key_row, value_row=value_row),
    )


def _page(access: Access, plan: AttentionPlan, width: Size, page: Size) -> tuple[Size, Size] | None:
    """Keys of a page and elements of their rows, if rows hold all heads side by side."""
    sequence, head, row, col = access.strides
    lengths = []
    for index, num_keys in enumerate(plan.keys):
        num_heads, step = plan.batch[1][index], row[index]
        is_row = col[index] == 1 and head[index] in (width[index], 0) and not access.offset[index]
        is_row &= num_heads * width[index] == step and not page[index] % step
        length = page[index] // step
        if not is_row or num_keys % length or sequence[index] != num_keys * step:
            return None
        lengths.append(length)
    return tuple(lengths), row
