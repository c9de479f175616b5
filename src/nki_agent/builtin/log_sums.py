"""Sums over logarithms of a softmax, without the logarithms.

Law: `log_softmax(x)` is `x - top - log(total)` with the row's maximum and the sum of its
exponentials. What is the same in a whole row comes out of a sum, and shares of a softmax add up to
one. So a row's sum of logarithms, plain or weighted by such shares, needs no value of each element
but `x - top` and `exp(x - top)`, and both are there before the sum of the exponentials is.
Not covered: rows in 16 bits, and logarithms that are read otherwise too.
"""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.builtin.graph import Graph, GraphBuilder, Node, Op
from nki_agent.builtin.pruning import prune
from nki_agent.isa.dtype import DType

SOFTMAX, LOGARITHMS = "softmax", "log_softmax"


@dataclass(frozen=True, slots=True)
class _Sum:
    """What a reduction adds up: logarithms, or the difference of two, each with its share or 1."""

    first: Node
    second: Node | None = None
    shares: Node | None = None


def simplify_log_sums(graph: Graph) -> Graph:
    """Replace each such sum."""
    users = graph.users()
    found = {node.id: match for node in graph.nodes if (match := _match(graph, node, users))}
    if not found:
        return graph
    builder = GraphBuilder(arguments=list(graph.arguments))
    new_id: dict[int, int] = {}
    for node in graph.nodes:
        builder.origin = node.origin
        if node.id in found:
            new_id[node.id] = _Sums(builder, new_id).make(found[node.id], node.label)
        else:
            new_id[node.id] = builder.repeat(node, [new_id[i] for i in node.inputs])
    outputs = tuple(new_id[o] for o in graph.outputs)
    return prune(Graph(tuple(builder.nodes), graph.arguments, outputs))


def _match(graph: Graph, node: Node, users: dict[int, list[int]]) -> _Sum | None:
    is_sum = node.op is Op.REDUCE and node.function == "add" and not node.loop
    if not is_sum or node.axes != (len(node.shape) - 1,):
        return None
    added = graph[node.inputs[0]]
    inner = {node.id, added.id}
    choices: list[tuple[Node, Node | None]] = [(added, None)]
    if _is(added, "multiply"):
        one, other = (graph[i] for i in added.inputs)
        inner |= {one.id, other.id}
        choices = [(one, _softmax_of(graph, other)), (other, _softmax_of(graph, one))]
        choices = [choice for choice in choices if choice[1] is not None]
    for logarithms, shares in choices:
        terms = _terms(graph, logarithms)
        if not terms or any(n.shape != added.shape for n in terms):
            continue
        made = inner | {n.id for n in terms} | ({shares.id} if shares else set())
        if all(set(users[n]) <= inner for n in made - {node.id}):
            return _Sum(terms[0], terms[1] if len(terms) > 1 else None, shares)
    return None


def _is(node: Node, function: str) -> bool:
    return node.op is Op.BINARY and node.function == function


def _softmax_of(graph: Graph, node: Node) -> Node | None:
    """The SOFTMAX node whose shares a value is; None where it is none."""
    wanted = SOFTMAX
    if node.op is Op.UNARY and node.function == "exp":
        node, wanted = graph[node.inputs[0]], LOGARITHMS
    return node if _is_plain(node, wanted) else None


def _is_plain(node: Node, function: str) -> bool:
    is_own = node.op is Op.SOFTMAX and node.function == function and len(node.inputs) == 1
    return is_own and not node.causal and node.dtype is DType.FLOAT32


def _terms(graph: Graph, node: Node) -> tuple[Node, ...]:
    """The logarithms that a value is, or those of which it is the difference; else nothing."""
    nodes = tuple(graph[i] for i in node.inputs) if _is(node, "subtract") else (node,)
    return nodes if all(_is_plain(n, LOGARITHMS) for n in nodes) else ()


@dataclass(frozen=True, slots=True)
class _Sums:
    """Writes sums anew; `new_id` are the nodes that were copied."""

    builder: GraphBuilder
    new_id: dict[int, int]

    def make(self, match: _Sum, label: str) -> int:
        """The sum of one match."""
        builder, source = self.builder, self.new_id[match.first.inputs[0]]
        top, total, _ = self._row(match.first)
        scale = builder.unary("log", total)
        if match.shares is None and match.second is None:
            # Behind the maximum is added once for a whole row.
            count = builder.const(float(match.first.shape[-1]))
            plain = self._total(source)
            beyond = builder.binary("add", scale, top)
            return builder.binary("subtract", plain, builder.binary("multiply", beyond, count))
        values, shift = source, top
        if match.second is not None:
            other = self.new_id[match.second.inputs[0]]
            other_top, other_total, _ = self._row(match.second)
            values = builder.binary("subtract", source, other)
            shift = builder.binary("subtract", top, other_top)
            scale = builder.binary("subtract", scale, builder.unary("log", other_total))
        values = builder.binary("subtract", values, shift)
        if match.shares is None:
            count = builder.const(float(match.first.shape[-1]))
            whole = builder.binary("multiply", scale, count)
            return builder.binary("subtract", self._total(values), whole)
        _, weight, exps = self._row(match.shares)
        weighed = self._total(builder.binary("multiply", values, exps))
        result = builder.binary("subtract", builder.binary("divide", weighed, weight), scale)
        return builder.label(result, label) if label else result

    def _row(self, node: Node) -> tuple[int, int, int]:
        """Maximum, sum of exponentials and these."""
        source = self.new_id[node.inputs[0]]
        top = self.builder.reduce("maximum", source, node.axes, keepdims=True)
        exps = self.builder.unary("exp", self.builder.binary("subtract", source, top))
        return top, self._total(exps), exps

    def _total(self, node_id: int) -> int:
        return self.builder.reduce("add", node_id, [-1], keepdims=True)
