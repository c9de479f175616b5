"""Loops over time as stages of their own: those that keep their state on chip.

Law: only loops that know nothing of each other run together, step by step in turn, so that no
engine waits for one of them; every stage still comes after what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from nki_agent.builtin.capture import Captured
from nki_agent.builtin.delta_rule import find_delta_rule, plan_delta_rule
from nki_agent.builtin.graph import Graph, Op
from nki_agent.builtin.plan import Stored
from nki_agent.builtin.resident import find_resident, plan_resident
from nki_agent.builtin.resident_inputs import add_columns_early
from nki_agent.builtin.resident_plan import DeltaRulePlan, ResidentPlan, ResidentRowsPlan
from nki_agent.builtin.resident_rows import find_row_loop, plan_row_loop
from nki_agent.builtin.stages import Group, StageKind
from nki_agent.builtin.turns import order_turn
from nki_agent.chip.spec import ChipSpec

T = TypeVar("T")
PARTS_MAX = 6
"""Parts of products of loops that run together: each may take a bank of PSUM."""


def keep_loops(captured: Captured, groups: Sequence[Group], chip: ChipSpec) -> list[Group]:
    """Make each loop over time whose state can stay in SBUF one stage."""
    found = list(groups)
    for loop in dict.fromkeys(group.loop for group in groups if group.loop):
        own = [group for group in found if group.loop == loop]
        nodes = tuple(sorted(node for group in own for node in group.nodes))
        if find_resident(captured, nodes, chip) or find_row_loop(captured, nodes, chip):
            found[found.index(own[0])] = Group(StageKind.RESIDENT, nodes)
            found = [group for group in found if group not in own]
            # A state that starts from zero and stays on chip needs no row in HBM.
            rule = find_delta_rule(captured, nodes, chip)
            first = () if rule is None else rule.history.inputs[:1]
            found = [group for group in found if group.nodes != first]
    return _pair_up(captured, found, chip)


def _pair_up(captured: Captured, groups: list[Group], chip: ChipSpec) -> list[Group]:
    """The first two loops that may run together as one stage, where there are two."""
    loops = [index for index, group in enumerate(groups) if group.kind is StageKind.RESIDENT]
    for number, first in enumerate(loops):
        for second in loops[number + 1 :]:
            between = groups[first + 1 : second]
            pair = groups[first].nodes, groups[second].nodes
            if any(group.loop for group in between) or not _may_pair(captured, pair, chip):
                continue
            behind = [g for g in between if _needs(captured.graph, g.nodes, pair[0])]
            ahead = [group for group in between if group not in behind]
            merged = Group(StageKind.RESIDENT, tuple(sorted((*pair[0], *pair[1]))))
            return [*groups[:first], *ahead, merged, *behind, *groups[second + 1 :]]
    return groups


def _may_pair(
    captured: Captured, pair: tuple[Sequence[int], Sequence[int]], chip: ChipSpec
) -> bool:
    """Whether two loops are alike in size, small enough, and independent."""
    steps = [find_resident(captured, nodes, chip) for nodes in pair]
    one, two = steps
    if one is None or two is None:
        return False
    sizes = {(step.steps, step.sequences, step.features) for step in (one, two)}
    parts = [len(p.parts) for step in (one, two) for p in step.products.values()]
    if len(sizes) > 1 or sum(parts) > PARTS_MAX or one.share(chip) + two.share(chip) > 1:
        return False
    graph = captured.graph
    return not (_needs(graph, pair[1], pair[0]) or _needs(graph, pair[0], pair[1]))


def _needs(graph: Graph, nodes: Sequence[int], others: Sequence[int]) -> bool:
    """Whether any of the nodes depends on any of the others."""
    initial = {n.name: n.inputs[0] for n in graph.nodes if n.op is Op.PARTS and n.name}
    seen: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = graph[waiting.pop()]
        if node.id not in seen:
            seen.add(node.id)
            waiting += node.inputs
            waiting += [initial[node.name]] if node.op is Op.STATE else []
    return bool(seen & set(others))


def plan_loop(
    captured: Captured,
    group: Group,
    *,
    buffers: Mapping[int, Stored],
    outputs: Sequence[int],
    chip: ChipSpec,
) -> ResidentPlan | ResidentRowsPlan | DeltaRulePlan:
    """Plan one stage that `keep_loops` made."""
    loops: dict[int, list[int]] = {}
    for node in group.nodes:
        loops.setdefault(captured.graph[node].loop, []).append(node)
    if len(loops) == 1:
        rule = find_delta_rule(captured, group.nodes, chip)
        if rule is not None:
            return plan_delta_rule(captured, rule, buffers=buffers)
        rows = plan_row_loop(captured, group.nodes, buffers=buffers, outputs=outputs, chip=chip)
        if rows is not None:
            return rows
    plans: list[ResidentPlan] = []
    taken: Mapping[str, int] = {}
    for nodes in loops.values():
        plan, taken = plan_resident(captured, nodes, buffers=buffers, chip=chip, taken=taken)
        plans.append(plan)
    return order_turn(add_columns_early(_join(plans)), chip)


def _join(plans: Sequence[ResidentPlan]) -> ResidentPlan:
    """Steps in turn; all have the same sizes."""
    first = plans[0]
    depth = max(len(plan.levels) for plan in plans)
    return ResidentPlan(
        title=first.title,
        steps=first.steps,
        sequences=first.sequences,
        features=first.features,
        inputs=_all(plan.inputs for plan in plans),
        columns=_all(plan.columns for plan in plans),
        products=_all(plan.products for plan in plans),
        results=_all(plan.results for plan in plans),
        states=_all(plan.states for plan in plans),
        levels=tuple(
            tuple(s for plan in plans for steps in plan.levels[level : level + 1] for s in steps)
            for level in range(depth)
        ),
    )


def _all(parts: Iterable[Sequence[T]]) -> tuple[T, ...]:
    return tuple(item for part in parts for item in part)
