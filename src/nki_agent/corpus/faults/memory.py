"""Faults of memory: a tile in the wrong place, a load or a copy that is missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from nki_agent.corpus.faults.fault import Fault, FaultFamily, Place
from nki_agent.corpus.faults.kernel_text import KernelText, dotted, find_keyword

WRONG_PLACES: Mapping[str, tuple[str, str]] = {
    "psum-tile-in-sbuf": ("nl.psum", "nl.sbuf"),
    "sbuf-tile-in-psum": ("nl.sbuf", "nl.psum"),
    "sbuf-tile-in-hbm": ("nl.sbuf", "nl.shared_hbm"),
    "result-in-sbuf": ("nl.shared_hbm", "nl.sbuf"),
    "scratch-in-sbuf": ("nl.private_hbm", "nl.sbuf"),
}
COPIES = ("nisa.tensor_copy",)


def _move(kernel: KernelText, right: str, wrong: str) -> Iterator[Place]:
    for call in kernel.calls("nl.ndarray"):
        buffer = find_keyword(call, "buffer")
        if buffer is None or dotted(buffer.value) != right:
            continue
        statement = kernel.statement(call)
        name = "the tensor"
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = f"`{statement.targets[0].id}`"
        cause = f"{name} is in `{wrong}`, and what is done with it needs `{right}`"
        yield Place(changes=(kernel.replace(buffer.value, wrong),), cause=cause)


def _make_move(right: str, wrong: str) -> Fault:
    name = next(name for name, pair in WRONG_PLACES.items() if pair == (right, wrong))

    def find(kernel: KernelText) -> Iterator[Place]:
        yield from _move(kernel, right, wrong)

    return Fault(name=name, family=FaultFamily.MEMORY, find=find)


def _load_missing(kernel: KernelText) -> Iterator[Place]:
    """A tile that is loaded from HBM is used without the load."""
    for call in kernel.calls("nisa.dma_copy"):
        target = find_keyword(call, "dst")
        if target is None or not isinstance(target.value, ast.Name):
            continue
        made = kernel.defined_by(target.value)
        change = kernel.drop_statement(kernel.statement(call))
        if isinstance(made, ast.Call) and dotted(made.func) == "nl.ndarray" and change is not None:
            cause = f"nothing is loaded into `{target.value.id}` before it is read"
            yield Place(changes=(change,), cause=cause)


def _store_missing(kernel: KernelText) -> Iterator[Place]:
    """A result is never written back."""
    for call in kernel.calls("nisa.dma_copy"):
        source, target = find_keyword(call, "src"), find_keyword(call, "dst")
        change = kernel.drop_statement(kernel.statement(call))
        if (
            source is not None
            and target is not None
            and isinstance(source.value, ast.Name)
            and not isinstance(target.value, ast.Name)
            and change is not None
        ):
            cause = f"`{source.value.id}` is never copied to `{kernel.text(target.value)}`"
            yield Place(changes=(change,), cause=cause)


def _used_before_copy(kernel: KernelText) -> Iterator[Place]:
    """What a copy out of PSUM makes is left out, and the PSUM tile is used in its place."""
    for call in kernel.calls(*COPIES):
        source, target = find_keyword(call, "src"), find_keyword(call, "dst")
        if source is None or target is None:
            continue
        if not (isinstance(source.value, ast.Name) and isinstance(target.value, ast.Name)):
            continue
        statement = kernel.statement(call)
        uses = [
            node
            for later in kernel.siblings(statement)[
                kernel.siblings(statement).index(statement) + 1 :
            ]
            for node in ast.walk(later)
            if isinstance(node, ast.Name) and node.id == target.value.id
        ]
        change = kernel.drop_statement(statement)
        if uses and change is not None:
            name, other = source.value.id, target.value.id
            cause = f"`{name}` is still in PSUM, and must be copied to `{other}` in SBUF first"
            changes = (change, *(kernel.replace(use, name) for use in uses))
            yield Place(changes=changes, cause=cause)


def _operand_in_hbm(kernel: KernelText) -> Iterator[Place]:
    """An engine reads HBM: the load is left out, and its source used in the tile's place."""
    for call in kernel.calls("nisa.dma_copy"):
        source, target = find_keyword(call, "src"), find_keyword(call, "dst")
        if source is None or target is None or not isinstance(target.value, ast.Name):
            continue
        statement = kernel.statement(call)
        block = kernel.siblings(statement)
        uses = [
            keyword.value
            for later in block[block.index(statement) + 1 :]
            for node in ast.walk(later)
            if isinstance(node, ast.Call) and dotted(node.func).startswith("nisa.")
            for keyword in node.keywords
            if keyword.arg in {"data", "data1", "data2", "moving"}
            and dotted(keyword.value) == target.value.id
        ]
        change = kernel.drop_statement(statement)
        if uses and change is not None:
            text = kernel.text(source.value)
            cause = f"`{text}` is in HBM, and engines read SBUF and PSUM only"
            yield Place(changes=(change, *(kernel.replace(use, text) for use in uses)), cause=cause)


FAULTS = (
    *(_make_move(right, wrong) for right, wrong in WRONG_PLACES.values()),
    *(
        Fault(name=name, family=FaultFamily.MEMORY, find=find)
        for name, find in {
            "load-missing": _load_missing,
            "store-missing": _store_missing,
            "used-before-copy": _used_before_copy,
            "operand-in-hbm": _operand_in_hbm,
        }.items()
    ),
)
