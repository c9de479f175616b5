"""Faults of sizes and indices: tails, counts, swapped sizes, forgotten offsets."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.corpus.faults.fault import Fault, FaultFamily, Place
from nki_agent.corpus.faults.kernel_text import KernelText, dotted, find_keyword

PAIR = 2


def _tail_not_clipped(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("min"):
        if len(call.args) != PAIR or not isinstance(call.args[1], ast.BinOp):
            continue
        most, left = map(kernel.text, call.args)
        cause = f"the last step has only `{left}` left, and it always takes `{most}`"
        yield Place(changes=(kernel.replace(call, most),), cause=cause)


def _floor_for_ceil(kernel: KernelText) -> Iterator[Place]:
    for node in kernel.find(ast.BinOp):
        match node:
            case ast.BinOp(
                op=ast.FloorDiv(),
                left=ast.BinOp(
                    op=ast.Sub(), left=ast.BinOp(op=ast.Add(), left=size), right=ast.Constant()
                ),
                right=step,
            ):
                text = f"{kernel.text(size)} // {kernel.text(step)}"
                cause = f"`{text}` rounds down, so a part that is not whole is left out"
                yield Place(changes=(kernel.replace(node, text),), cause=cause)
            case _:
                pass


def _one_step_too_few(kernel: KernelText) -> Iterator[Place]:
    yield from _shift_range(kernel, by="- 1", cause="the loop over `{}` stops one step too early")


def _one_step_too_many(kernel: KernelText) -> Iterator[Place]:
    yield from _shift_range(kernel, by="+ 1", cause="the loop over `{}` goes one step too far")


def _shift_range(kernel: KernelText, *, by: str, cause: str) -> Iterator[Place]:
    for call in kernel.calls("range"):
        if len(call.args) == 1 and isinstance(call.args[0], ast.Name):
            size = kernel.text(call.args[0])
            change = kernel.replace(call.args[0], f"{size} {by}")
            yield Place(changes=(change,), cause=cause.format(size))


def _swapped_sizes(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nl.ndarray"):
        shape = call.args[0] if call.args else None
        if not isinstance(shape, ast.Tuple) or len(shape.elts) < PAIR:
            continue
        first, second = shape.elts[-PAIR:]
        left, right = kernel.text(first), kernel.text(second)
        if left != right:
            cause = f"the sizes `{left}` and `{right}` of the tile are the wrong way round"
            yield Place(
                changes=(kernel.replace(first, right), kernel.replace(second, left)), cause=cause
            )


def _forgotten_offset(kernel: KernelText) -> Iterator[Place]:
    for node in kernel.find(ast.Slice):
        match node:
            case ast.Slice(
                lower=ast.Name(id=start), upper=ast.BinOp(op=ast.Add(), left=ast.Name(id=again))
            ) if start == again:
                assert isinstance(node.upper, ast.BinOp)
                size = kernel.text(node.upper.right)
                cause = (
                    f"every step takes the first `{size}`: the slice does not begin at `{start}`"
                )
                yield Place(changes=(kernel.replace(node, f":{size}"),), cause=cause)
            case _:
                pass


def _wrong_axis_of_shape(kernel: KernelText) -> Iterator[Place]:
    for node in kernel.find(ast.Subscript):
        match node:
            case ast.Subscript(
                value=ast.Attribute(attr="shape", value=ast.Name(id=name)),
                slice=ast.Constant(value=(0 | 1) as axis),
            ):
                cause = f"`{name}.shape[{1 - axis}]` is the size of the other axis"
                change = kernel.replace(node.slice, str(1 - axis))
                yield Place(changes=(change,), cause=cause)
            case _:
                pass


def _tail_left_out(kernel: KernelText) -> Iterator[Place]:
    for node in kernel.find(ast.If):
        assert isinstance(node, ast.If)
        change = kernel.drop_statement(node)
        if isinstance(node.test, ast.Name) and not node.orelse and change is not None:
            size = node.test.id
            cause = f"the `{size}` that are left after the whole tiles are never worked on"
            yield Place(changes=(change,), cause=cause)


def _wrong_reduced_axis(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nisa.tensor_reduce"):
        axis = find_keyword(call, "axis")
        if axis is not None and isinstance(axis.value, ast.Constant):
            cause = "it reduces over the partition axis, not over the row"
            yield Place(changes=(kernel.replace(axis.value, "0"),), cause=cause)


def _swapped_operands(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nisa.nc_matmul"):
        stationary, moving = find_keyword(call, "stationary"), find_keyword(call, "moving")
        if stationary is None or moving is None:
            continue
        left, right = kernel.text(stationary.value), kernel.text(moving.value)
        if left != right and dotted(call.func):
            cause = f"`{right}` must move past `{left}`, and the two operands are swapped"
            yield Place(
                changes=(
                    kernel.replace(stationary.value, right),
                    kernel.replace(moving.value, left),
                ),
                cause=cause,
            )


FAULTS = tuple(
    Fault(name=name, family=FaultFamily.SIZES, find=find)
    for name, find in {
        "tail-not-clipped": _tail_not_clipped,
        "floor-for-ceil": _floor_for_ceil,
        "one-step-too-few": _one_step_too_few,
        "one-step-too-many": _one_step_too_many,
        "swapped-sizes": _swapped_sizes,
        "forgotten-offset": _forgotten_offset,
        "wrong-axis-of-shape": _wrong_axis_of_shape,
        "tail-left-out": _tail_left_out,
        "wrong-reduced-axis": _wrong_reduced_axis,
        "swapped-operands": _swapped_operands,
    }.items()
)
