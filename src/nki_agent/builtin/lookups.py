"""Rows that indices name, loaded by the stage that uses them: a gather that never goes back to HBM.

Law: a stage takes such rows only whole, one in each partition, in the order of their indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.graph import Graph, Node, Op
from nki_agent.builtin.stages import Group, StageKind
from nki_agent.builtin.tile_steps import Access, Size

ROW_BYTES_MIN = 512
"""Shorter rows are better taken several in each partition."""


def join_lookups(captured: Captured, groups: Sequence[Group]) -> list[Group]:
    """The stages where each gather that one pass over rows alone reads is a part of that pass."""
    found = list(groups)
    for group in groups:
        reader = _only_reader(captured, group, found)
        if reader is None:
            continue
        more = (*reader.lookups, group.nodes[0])
        found[found.index(reader)] = replace(reader, lookups=more)
        found.remove(group)
    return found


def _only_reader(captured: Captured, group: Group, groups: Sequence[Group]) -> Group | None:
    graph = captured.graph
    node = graph[group.nodes[0]]
    if group.kind is not StageKind.PICK or node.function != "take_rows" or group.loop:
        return None
    readers = _readers(graph, node)
    if max(row_bytes(captured, node)) < ROW_BYTES_MIN:
        return None
    for reader in groups:
        if reader.kind is StageKind.ROWS and readers <= set(reader.nodes):
            made = {graph.base(source).id for source in node.inputs}
            is_plain = reader.fold is None and not reader.loop and not made & set(reader.nodes)
            return reader if is_plain and readers else None
    return None


def _readers(graph: Graph, node: Node) -> set[int]:
    """The nodes that read a value, seen through views; -1 is a result."""
    users = graph.users()
    found: set[int] = set()
    for user in users[node.id]:
        is_view = user >= 0 and graph[user].op is Op.VIEW
        found |= set(users[user]) if is_view else {user}
    return found


def row_cols(captured: Captured, node: Node) -> Size:
    """Columns of one row of the table."""
    return tuple(g[node.id].num_elems // g[node.inputs[1]].num_elems for g in captured.graphs)


def row_bytes(captured: Captured, node: Node) -> Size:
    """Bytes of one row of the table, as the reference stores it."""
    return tuple(n * node.dtype.itemsize for n in row_cols(captured, node))


def access_of_index(access: Access, cols: Size, index: str) -> Access | None:
    """How indices are walked where their rows are walked so; None where rows are not whole."""
    *loops, col = access.strides
    if any(step != 1 for step in col):
        return None
    steps = [*loops, access.offset]
    if any(n % c for step in steps for n, c in zip(step, cols, strict=True)):
        return None
    *starts, offset = (tuple(n // c for n, c in zip(s, cols, strict=True)) for s in steps)
    return Access(tensor=index, strides=(*starts, (0,) * len(cols)), offset=offset)
