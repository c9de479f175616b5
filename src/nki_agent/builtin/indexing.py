"""Operators that go by run-time indices or by rank: embedding, gather, index_add, topk, sort.

Law: an operand of a PICK lies row by row; what does not is stored so first. A scatter of a few
columns becomes comparisons with positions, which fuse with their neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nki_agent.builtin.graph import Op, UnsupportedError, contiguous_strides
from nki_agent.builtin.rules import Ref, Rules, Value
from nki_agent.isa.dtype import DType

FEW_COLS = 16
"""Up to so many columns are scattered by comparisons with positions."""
EXACT_MAX = 2**24
"""Indices are computed in float32, which holds whole numbers up to here."""
LOW = 2
"""How much lower than wide matrices are that lie one below the other, or the other way around."""
PAIR = 2
Index = Ref | None


# -- operands -------------------------------------------------------------------------------------


def stored_by_row(rules: Rules, x: Ref) -> Ref:
    """The value, or a copy of it that lies row by row from its first element on."""
    node = rules.node(x)
    if node.op in (Op.VIEW, Op.IOTA):
        base = rules.builder.nodes[rules.builder.base_of(x.id)]
        whole = node.strides == contiguous_strides(node.shape) and node.num_elems == base.num_elems
        if node.op is Op.IOTA or not whole or node.offset:
            return Ref(rules.builder.unary("copy", x.id))
    return x


def _pick(rules: Rules, function: str, inputs: Sequence[Ref], shape: Sequence[int]) -> Ref:
    by_row = [stored_by_row(rules, x).id for x in inputs]
    dtype = rules.node(inputs[0]).dtype
    return Ref(rules.builder.pick(function, by_row, tuple(shape), dtype))


def _along_lead(rules: Rules, index: Ref, shape: Sequence[int], dim: int) -> Ref:
    """Row numbers of a tensor whose axes up to `dim` are one: `index` counts along `dim`."""
    lead = math.prod(shape[:dim])
    if math.prod(shape[: dim + 1]) > EXACT_MAX:
        raise UnsupportedError("an index", f"it runs over more than {EXACT_MAX} rows")
    if lead == 1 and all(n == 1 for n in shape[:dim]) and dim == 0:
        return index
    (count,) = rules.node(index).shape
    starts = rules.builder.iota((lead, count), steps=(shape[dim], 0))
    return rules.add(Ref(starts), index)


def _flat(rules: Rules, x: Ref) -> Ref:
    node = rules.node(stored_by_row(rules, x))
    base = rules.builder.base_of(node.id)
    return Ref(rules.builder.view(base, shape=(node.num_elems,), strides=(1,)))


# -- taking ---------------------------------------------------------------------------------------


def _embedding(rules: Rules, table: Ref, index: Ref, *_: object, **__: object) -> Ref:
    shape = (*rules.node(index).shape, *rules.node(table).shape[1:])
    return _pick(rules, "take_rows", [table, index], shape)


def _index_select(rules: Rules, x: Ref, dim: int, index: Ref) -> Ref:
    shape = rules.node(x).shape
    axis = dim % len(shape)
    count = rules.node(index).num_elems
    rows = _along_lead(rules, _flat(rules, index), shape, axis)
    return _pick(rules, "take_rows", [x, rows], (*shape[:axis], count, *shape[axis + 1 :]))


def _index(rules: Rules, x: Ref, indices: Sequence[Index]) -> Ref:
    shape = rules.node(x).shape
    first, row = _row_of(rules, indices, shape, "index")
    inner = rules.node(row).shape
    used = sum(i is not None for i in indices)
    if first == 0:
        return _pick(rules, "take_rows", [x, row], (*inner, *shape[used:]))
    merged = (*shape[:first], math.prod(shape[first : first + used]), *shape[first + used :])
    rows = _along_lead(rules, _flat(rules, row), merged, first)
    return _pick(rules, "take_rows", [x, rows], (*shape[:first], *inner, *shape[first + used :]))


def _row_of(
    rules: Rules, indices: Sequence[Index], shape: Sequence[int], name: str
) -> tuple[int, Ref]:
    """The first axis that is indexed, and one index over all those axes together."""
    given = [(axis, i) for axis, i in enumerate(indices) if i is not None]
    axes = [axis for axis, _ in given]
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise UnsupportedError(name, "axes that are indexed do not follow each other")
    if any(rules.node(i).dtype is DType.BOOL for _, i in given):
        raise UnsupportedError(
            name, "how many elements a mask keeps is not known", hint="use `torch.where`"
        )
    if math.prod(shape[a] for a in axes) > EXACT_MAX and len(axes) > 1:
        raise UnsupportedError(name, f"it runs over more than {EXACT_MAX} rows")
    row = given[0][1]
    for axis, index in given[1:]:
        row = rules.add(rules.mul(row, float(shape[axis])), index)
    return axes[0], row


def _gather(rules: Rules, x: Ref, dim: int, index: Ref, *_: object, **__: object) -> Ref:
    shape, wanted = rules.node(x).shape, rules.node(index).shape
    axis = dim % len(shape)
    if axis != len(shape) - 1 or shape[:-1] != wanted[:-1]:
        raise UnsupportedError(
            "gather", "it is covered along the last axis, over all rows", hint="transpose first"
        )
    return take_cols(rules, x, index)


def take_cols(rules: Rules, x: Ref, index: Ref) -> Ref:
    """Elements of each row at places of its own."""
    return _pick(rules, "take_cols", [x, index], rules.node(index).shape)


def find_bag(rules: Rules, x: Ref, dim: Sequence[int]) -> Ref | None:
    """A sum of weighted rows that indices name, which needs none of the rows stored."""
    node = rules.node(x)
    rank = len(node.shape)
    pair = node.op is Op.BINARY and node.function == "multiply"
    if not pair or rank < PAIR or [d % rank for d in dim] != [rank - PAIR]:
        return None
    for rows, weight in (node.inputs, reversed(node.inputs)):
        picked, factor = rules.builder.nodes[rows], rules.builder.nodes[weight]
        taken = picked.op is Op.PICK and picked.function == "take_rows"
        if taken and picked.shape == node.shape and factor.shape == (*node.shape[:-1], 1):
            table, index = picked.inputs
            inputs = [Ref(table), Ref(index), stored_by_row(rules, Ref(weight))]
            return _pick(rules, "bag", inputs, (*node.shape[:-PAIR], node.shape[-1]))
    return None


def _find_taken(rules: Rules, rows: Ref, rank: int) -> list[Ref] | None:
    """Rows that are taken from a table, perhaps times a weight each: table, index and weight.

    Whoever adds them up elsewhere takes them himself.
    """
    node = rules.node(rows)
    if rank != PAIR or len(node.shape) != PAIR or not node.dtype.is_float:
        return None
    if node.op is Op.PICK and node.function == "take_rows":
        return [Ref(i) for i in node.inputs]
    if node.op is not Op.BINARY or node.function != "multiply":
        return None
    for taken, weight in (node.inputs, reversed(node.inputs)):
        picked, factor = rules.builder.nodes[taken], rules.builder.nodes[weight]
        is_taken = picked.op is Op.PICK and picked.function == "take_rows"
        if is_taken and picked.shape == node.shape and factor.shape == (node.shape[0], 1):
            return [*(Ref(i) for i in picked.inputs), stored_by_row(rules, Ref(weight))]
    return None


def product_by_row(rules: Rules, x: Ref, weights: Ref) -> Ref | None:
    """Rows of x, each times the matrix that its index names; None if it is another product.

    Every matrix is multiplied with all rows, and each row takes its own result: matrices are few,
    and copies of them, one for each row, would be many. Low matrices are one below the other.
    """
    builder, node = rules.builder, rules.node(weights)
    if node.op is not Op.PICK or node.function != "take_rows":
        return None
    table, index = (builder.nodes[i] for i in node.inputs)
    count, depth = node.shape[0], node.shape[1]
    by_row = rules.node(x).shape == (count, 1, depth) and index.shape == (count,)
    if not by_row or len(table.shape) != len(node.shape) or table.shape[0] > count:
        return None
    if rules.agreed.agree(LOW * depth <= node.shape[2]):
        return _stacked_product(rules, x, Ref(table.id), Ref(index.id))
    walk = rules.node(x).strides or contiguous_strides(rules.node(x).shape)
    rows = builder.view(
        builder.base_of(x.id),
        shape=(count, depth),
        strides=(walk[0], walk[2]),
        offset=rules.node(x).offset,
    )
    if rules.agreed.agree(LOW * node.shape[2] <= depth):
        every = _beside(rules, rows, Ref(table.id))
        number = rules.add(Ref(index.id), Ref(builder.iota((count,), steps=(table.shape[0],))))
    else:
        every = Ref(builder.matmul(rows, table.id, table.dtype))
        number = rules.add(
            rules.mul(Ref(index.id), float(count)), Ref(builder.iota((count,), steps=(1,)))
        )
    return _pick(rules, "take_rows", [every, number], (count, 1, node.shape[2]))


def _beside(rules: Rules, rows: int, table: Ref) -> Ref:
    """The products with narrow matrices, which are laid side by side first: rows meet them once."""
    builder = rules.builder
    matrices, depth, cols = rules.node(table).shape
    turned = stored_by_row(rules, Ref(builder.permute(table.id, (1, 0, 2))))
    wide = builder.view(turned.id, shape=(depth, matrices * cols), strides=(matrices * cols, 1))
    count = builder.nodes[rows].shape[0]
    every = builder.matmul(rows, wide, rules.node(table).dtype)
    return Ref(
        builder.view(every, shape=(count, matrices, cols), strides=(matrices * cols, cols, 1))
    )


def _stacked_product(rules: Rules, x: Ref, table: Ref, index: Ref) -> Ref:
    """Each row of x before the matrix that it meets, and zeros before the others."""
    builder = rules.builder
    (matrices, depth, cols), (count, *_) = rules.node(table).shape, rules.node(x).shape

    def seen(node_id: int, *shape: int) -> Ref:
        return Ref(
            builder.view(builder.base_of(node_id), shape=shape, strides=contiguous_strides(shape))
        )

    number = seen(builder.iota((matrices,), steps=(1,)), 1, matrices, 1)
    is_met = rules.binary("equal", seen(stored_by_row(rules, index).id, count, 1, 1), number)
    rows = rules.where(is_met, _every_result(rules, x, index, matrices) or x, 0.0)
    product = builder.matmul(
        seen(rows.id, count, matrices * depth).id,
        seen(table.id, matrices * depth, cols).id,
        rules.node(table).dtype,
    )
    return seen(product, count, 1, cols)


def _every_result(rules: Rules, x: Ref, index: Ref, matrices: int) -> Ref | None:
    """Results of matrices side by side, of which x takes those that the same index names."""
    nodes, node = rules.builder.nodes, rules.node(x)
    if node.op is not Op.PICK or node.function != "take_rows":
        return None
    every, number = (nodes[i] for i in node.inputs)
    is_beside = every.op is Op.VIEW and nodes[every.inputs[0]].op is Op.MATMUL
    if not is_beside or every.shape[1] != matrices or index.id not in number.inputs:
        return None
    return Ref(every.id)


# -- putting and adding ---------------------------------------------------------------------------


def _index_add(rules: Rules, x: Ref, dim: int, index: Ref, rows: Ref, alpha: float = 1) -> Ref:
    if alpha != 1:
        rows = rules.mul(rows, alpha)
    return _change(rules, "add_rows", x, dim, index, rows)


def _index_copy(rules: Rules, x: Ref, dim: int, index: Ref, rows: Ref) -> Ref:
    return _change(rules, "put_rows", x, dim, index, rows)


def _change(rules: Rules, function: str, x: Ref, dim: int, index: Ref, rows: Ref) -> Ref:
    shape = rules.node(x).shape
    axis = dim % len(shape)
    row = _along_lead(rules, _flat(rules, index), shape, axis)
    return _write(rules, function, x, rows, row)


def _write(rules: Rules, function: str, x: Ref, rows: Ref, index: Ref) -> Ref:
    base = rules.builder.nodes[rules.builder.base_of(x.id)]
    table = x if base.op is Op.CONST else stored_by_row(rules, x)
    node = rules.node(x)
    if rules.node(rows).op is not Op.CONST:
        rows = stored_by_row(rules, rows)
    inputs = [table.id, rows.id, stored_by_row(rules, index).id]
    if function == "add_rows" and (taken := _find_taken(rules, rows, len(node.shape))) is not None:
        source, place, *weight = taken
        inputs = [table.id, source.id, inputs[-1], place.id, *(w.id for w in weight)]
    return Ref(rules.builder.pick(function, inputs, node.shape, node.dtype))


def _index_put(
    rules: Rules, x: Ref, indices: Sequence[Index], rows: Ref, accumulate: int = 0, *_: object
) -> Ref:
    shape = rules.node(x).shape
    first, row = _row_of(rules, indices, shape, "index_put")
    used = sum(i is not None for i in indices)
    wanted = (*rules.node(row).shape, *shape[used:])
    if first or rules.node(rows).shape != wanted:
        raise UnsupportedError("index_put", "it is covered along the first axes, without broadcast")
    return _write(rules, "add_rows" if accumulate else "put_rows", x, rows, row)


def _scatter(rules: Rules, x: Ref, dim: int, index: Ref, src: Value = 0.0, **options: Any) -> Ref:
    src = options.get("value", src)
    if isinstance(src, Ref):
        return _by_position(rules, x, dim, index, partial(_put, rules, src))
    hit = _hits(rules, x, dim, index)
    is_mask = rules.node(x).dtype is DType.BOOL and src and _is_zero(rules, x)
    return hit if is_mask else rules.where(hit, float(src), x)


def _hits(rules: Rules, x: Ref, dim: int, index: Ref) -> Ref:
    """1 where any index of the row names the position, however many there are."""
    shape, given = rules.node(x).shape, rules.node(index).shape
    _require_rows(shape, given, dim)
    by_row = stored_by_row(rules, index)
    marks = rules.builder.pick("mark_cols", [by_row.id], shape, DType.UINT8)
    return Ref(rules.builder.cast(marks, DType.BOOL))


def _scatter_add(rules: Rules, x: Ref, dim: int, index: Ref, src: Ref) -> Ref:
    return _by_position(rules, x, dim, index, partial(_plus, rules, src))


def _by_position(
    rules: Rules, x: Ref, dim: int, index: Ref, change: Callable[[Ref, Ref, int], Ref]
) -> Ref:
    """Column by column of the index: where a position equals it, the element changes."""
    shape, given = rules.node(x).shape, rules.node(index).shape
    _require_rows(shape, given, dim)
    places = Ref(rules.builder.iota((shape[-1],), steps=(1,)))
    for number in range(given[-1]):
        hit = rules.binary("equal", places, _column(rules, index, number))
        x = change(x, hit, number)
    return x


def _put(rules: Rules, src: Ref, old: Ref, hit: Ref, number: int) -> Ref:
    part = rules.mul(hit, _column(rules, src, number))
    if _is_zero(rules, old):
        return part
    # Where it is hit, the old value gives way.
    kept = rules.mul(old, rules.binary("equal", hit, 0.0))
    return rules.add(kept, part)


def _require_rows(shape: Sequence[int], given: Sequence[int], dim: int) -> None:
    axis = dim % len(shape)
    if axis != len(shape) - 1 or tuple(shape[:-1]) != tuple(given[:-1]) or given[-1] > FEW_COLS:
        raise UnsupportedError(
            "scatter",
            f"it is covered along the last axis, over all rows, for up to {FEW_COLS} columns",
            hint="use `index_add` or `index_copy` along the first axis",
        )


def _plus(rules: Rules, src: Ref, old: Ref, hit: Ref, number: int) -> Ref:
    part = rules.mul(hit, _column(rules, src, number))
    return part if _is_zero(rules, old) else rules.add(old, part)


def _is_zero(rules: Rules, x: Ref) -> bool:
    node = rules.node(x)
    return node.op is Op.CONST and node.value == 0.0


def _column(rules: Rules, x: Ref, number: int) -> Ref:
    """One column, kept as an axis of one element."""
    node = rules.node(x)
    if node.op is Op.CONST:
        return Ref(rules.builder.const(node.value, (*node.shape[:-1], 1), node.dtype))
    strides = node.strides if node.op is Op.VIEW else contiguous_strides(node.shape)
    return Ref(
        rules.builder.view(
            rules.builder.base_of(x.id),
            shape=(*node.shape[:-1], 1),
            strides=strides,
            offset=node.offset + number * strides[-1],
        )
    )


# -- ranks ----------------------------------------------------------------------------------------


def _rank(
    rules: Rules, x: Ref, dim: int, *, count: int | None = None, largest: bool = True
) -> tuple[Ref, Ref]:
    """The first values along an axis, and their places."""
    node = rules.node(x)
    rank = len(node.shape)
    axis = dim % rank
    order = [*(a for a in range(rank) if a != axis), axis]
    turned = x if axis == rank - 1 else Ref(rules.builder.permute(x.id, order))
    source = stored_by_row(rules, turned)
    shape = (*(node.shape[a] for a in order[:-1]), count or node.shape[axis])
    word = "top" if largest else "bottom"
    values = rules.builder.pick(f"{word}_values", [source.id], shape, node.dtype)
    places = rules.builder.pick(f"{word}_places", [source.id], shape, DType.INT32)
    back = [order.index(a) for a in range(rank)]
    if axis == rank - 1:
        return Ref(values), Ref(places)
    return Ref(rules.builder.permute(values, back)), Ref(rules.builder.permute(places, back))


def _topk(
    rules: Rules, x: Ref, k: int, dim: int = -1, largest: int = 1, *_: object
) -> tuple[Ref, Ref]:
    return _rank(rules, x, dim, count=k, largest=bool(largest))


def _sort(rules: Rules, x: Ref, *given: Any, **options: Any) -> tuple[Ref, Ref]:
    """`sort(x, dim, descending)`, and the stable form with a flag in front or by name."""
    options.pop("stable", None)
    dim = options.pop("dim", None)
    descending = options.pop("descending", None)
    plain = [g for g in given if g is not None]
    if dim is None:
        dim = next((g for g in plain if not isinstance(g, bool)), -1)
    if descending is None:
        descending = next((g for g in reversed(plain) if isinstance(g, bool)), False)
    return _rank(rules, x, dim, largest=descending)


def _place(rules: Rules, x: Ref, dim: int | None = None, keepdim: int = 0, *, largest: bool) -> Ref:
    flat = _flat(rules, x) if dim is None else x
    _, places = _rank(rules, flat, -1 if dim is None else dim, count=1, largest=largest)
    if keepdim and dim is not None:
        return places
    axis = (dim or 0) % len(rules.node(flat).shape)
    return rules.squeeze(stored_by_row(rules, places), [axis])


def _argmax(rules: Rules, x: Ref, dim: int | None = None, keepdim: int = 0) -> Ref:
    return _place(rules, x, dim, keepdim, largest=True)


def _argmin(rules: Rules, x: Ref, dim: int | None = None, keepdim: int = 0) -> Ref:
    return _place(rules, x, dim, keepdim, largest=False)


def _running(op: str) -> Callable[[Rules, Ref, int], tuple[Ref, None]]:
    def rule(rules: Rules, x: Ref, dim: int, **_: object) -> tuple[Ref, None]:
        rank = len(rules.node(x).shape)
        if dim % rank != rank - 1:
            raise UnsupportedError(f"cum{op[:3]}", "it is covered along the last axis")
        shape = rules.node(x).shape
        return _pick(rules, f"running_{op}", [x], shape), None

    return rule


INDEXING: dict[str, Callable[..., Any]] = {
    "embedding": _embedding,
    "index_select": _index_select,
    "index": _index,
    "gather": _gather,
    "index_add": _index_add,
    "index_copy": _index_copy,
    "index_put": _index_put,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "topk": _topk,
    "sort": _sort,
    "argmax": _argmax,
    "argmin": _argmin,
    "cummax": _running("maximum"),
    "cummin": _running("minimum"),
}
"""The rule for each operator of this kind."""
