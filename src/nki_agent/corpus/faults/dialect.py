"""Faults of dialect: forms of `neuronxcc.nki` in a kernel for `nki`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.corpus.faults.fault import Fault, FaultFamily, Place
from nki_agent.corpus.faults.kernel_text import KernelText, dotted, find_keyword

RETURNING = (
    *("nisa.activation", "nisa.nc_matmul", "nisa.nc_transpose", "nisa.reciprocal"),
    *("nisa.tensor_copy", "nisa.tensor_reduce", "nisa.tensor_scalar", "nisa.tensor_tensor"),
)
PAIR = 2


def _result_returned(kernel: KernelText) -> Iterator[Place]:
    """`y = nisa.activation(op=..., data=x)`: instructions returned their tile."""
    for call in kernel.calls(*RETURNING):
        target = find_keyword(call, "dst")
        statement = kernel.statement(call)
        if target is None or not isinstance(statement, ast.Expr):
            continue
        name = dotted(call.func)
        head = kernel.replace(call.func, f"{kernel.text(target.value)} = {name}")
        if isinstance(target.value, ast.Subscript):
            head = kernel.replace(call.func, f"{kernel.text(target.value.value)}[...] = {name}")
        cause = f"`{name}` returns nothing in this dialect: it writes to `dst`"
        yield Place(changes=(head, kernel.drop_keyword(target)), cause=cause)


def _masked_access(kernel: KernelText) -> Iterator[Place]:
    """`mask=` in place of a slice that ends in time."""
    for call in kernel.calls("nisa.dma_copy"):
        keyword = find_keyword(call, "src") or find_keyword(call, "dst")
        if keyword is None:
            continue
        text = f"{keyword.arg}={kernel.text(keyword.value)}, mask=(nl.arange(PARTITIONS) < rows)"
        cause = "accesses have no `mask` in this dialect: the slice itself must end in time"
        yield Place(changes=(kernel.replace(keyword, text),), cause=cause)


def _index_tiles(kernel: KernelText) -> Iterator[Place]:
    """`x[i_p, i_f]` with tiles of indices from `nl.arange`."""
    for node in kernel.find(ast.Slice):
        match node:
            case ast.Slice(
                lower=ast.Name(id=start), upper=ast.BinOp(op=ast.Add(), left=ast.Name(id=again))
            ) if start == again:
                assert isinstance(node.upper, ast.BinOp)
                size = kernel.text(node.upper.right)
                text = f"{start} + nl.arange({size})[:, None]"
                cause = "`nl.arange` is of the other dialect: tiles are taken with slices"
                yield Place(changes=(kernel.replace(node, text),), cause=cause)
            case _:
                pass


def _partition_marked(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nl.ndarray"):
        buffer = find_keyword(call, "buffer")
        shape = call.args[0] if call.args else None
        if (
            buffer is not None
            and dotted(buffer.value) in {"nl.sbuf", "nl.psum"}
            and isinstance(shape, ast.Tuple)
            and len(shape.elts) >= PAIR
        ):
            first = kernel.text(shape.elts[0])
            change = kernel.replace(shape.elts[0], f"nl.par_dim({first})")
            cause = "`nl.par_dim` is of the other dialect: the first axis is the partition axis"
            yield Place(changes=(change,), cause=cause)


def _old_imports(kernel: KernelText) -> Iterator[Place]:
    changes = []
    for node in kernel.find(ast.Import):
        assert isinstance(node, ast.Import)
        name = node.names[0]
        if name.name == "nki":
            changes.append(kernel.replace(node, "import neuronxcc.nki as nki"))
        elif name.name.startswith("nki."):
            text = f"import neuronxcc.{name.name} as {name.asname}"
            changes.append(kernel.replace(node, text))
    if changes:
        cause = "the imports are those of `neuronxcc.nki`, and the kernel is for `nki`"
        yield Place(changes=tuple(changes), cause=cause)


def _cast_function(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls("nisa.tensor_copy"):
        source = find_keyword(call, "src")
        if source is not None:
            text = f"nl.static_cast({kernel.text(source.value)}, nl.float32)"
            cause = "`nl.static_cast` is of the other dialect: a copy into a tile casts"
            yield Place(changes=(kernel.replace(source.value, text),), cause=cause)


def _operators_of_numpy(kernel: KernelText) -> Iterator[Place]:
    for call in kernel.calls():
        for keyword in call.keywords:
            right = dotted(keyword.value)
            wrong = {
                "nl.add": "np.add",
                "nl.exp": "np.exp",
                "nl.maximum": "np.max",
                "nl.multiply": "np.multiply",
                "nl.subtract": "np.subtract",
            }.get(right)
            imports = next(kernel.find(ast.Import), None)
            if keyword.arg in {"op", "op0", "op1"} and wrong is not None and imports is not None:
                cause = f"`{wrong}` was the other dialect's operator: here it is `{right}`"
                change = kernel.replace(imports, f"import numpy as np\n{kernel.text(imports)}")
                yield Place(changes=(change, kernel.replace(keyword.value, wrong)), cause=cause)


FAULTS = tuple(
    Fault(name=name, family=FaultFamily.DIALECT, find=find)
    for name, find in {
        "result-returned": _result_returned,
        "masked-access": _masked_access,
        "index-tiles": _index_tiles,
        "partition-marked": _partition_marked,
        "old-imports": _old_imports,
        "cast-function": _cast_function,
        "operators-of-numpy": _operators_of_numpy,
    }.items()
)
