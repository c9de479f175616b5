"""docs/results/experiment.md: the experiment's tables and what they answer.

Law: every number on the page comes from the records; an answer is yes or no by its interval, and
the page says which it is either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.experiment.figures import Figures, compiled, lift, right, right_at_once
from benchmarks.experiment.plan import ExperimentPlan
from benchmarks.experiment.stages import BASE, REWARDS, SFT, grpo_name
from nki_agent.agent.episode import Mode
from nki_agent.bench.intervals import Interval
from nki_agent.verify.verdict import Stage

SOURCE: Final = "<!-- from python -m benchmarks.experiment.report -->"
LIFT_MIN: Final = 0.2
"""What SFT was to add with the loop on single operators."""
RESCUED_MIN: Final = 0.8
"""Of the groups without gain by `compiles`: the share in which `graded` was to have some."""
MINUTE_S: Final = 60.0
SHOWN = {
    BASE: "base",
    SFT: "SFT",
    "grpo-compiles": "SFT, then GRPO with `compiles`",
    "grpo-graded": "SFT, then GRPO with `graded`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The held-out tasks in three groups."""

    new: Figures
    """One operator; the graph is not taught."""
    known: Figures
    """One operator; the graph is taught at other sizes, rank, dtype or numbers."""
    single: Figures
    """Both of them."""
    fused: Figures
    """Several operators; the graph is not taught."""


def write_page(
    parts: Parts,
    *,
    counts: Mapping[str, int],
    plan: ExperimentPlan,
    second: Mapping[str, Any] | None,
) -> str:
    """The page; `second` is the record of the other arm, where it was run."""
    figures = parts.new
    return "\n".join(
        [
            *_head(figures, counts, plan),
            "## The answers\n",
            *_answers(parts),
            "## Why\n",
            *_why(parts, plan),
            "## Held-out single operators, graphs that were not taught\n",
            *_table(figures),
            "## Held-out single operators, taught graphs, other sizes, ranks, dtypes or numbers\n",
            *_table(parts.known),
            "## Held-out fused operators, graphs that were not taught\n",
            *_table(parts.fused),
            "## By seed\n",
            *_seeds(figures, "new"),
            *_seeds(parts.known, "known"),
            "## By graph distance to training\n",
            *_distances(figures),
            "## Where they fail\n",
            *_stages(figures, "new"),
            *_stages(parts.known, "known"),
            *_families(parts.known),
            "## Groups without gain\n",
            *_groups(figures),
            "## SmolLM2-135M\n",
            *_second(second),
            "## Curves\n",
            f"{SOURCE}\n\n![curves of SFT and GRPO](experiment.svg)\n",
        ]
    )


def _head(figures: Figures, counts: Mapping[str, int], plan: ExperimentPlan) -> Iterator[str]:
    first = figures.records[0]
    wall = max(sum(record.wall_s.values()) for record in figures.records) / MINUTE_S
    cpu = max(sum(record.cpu_s.values()) for record in figures.records) / MINUTE_S
    memory = max(record.memory_gib for record in figures.records)
    yield "# A small model learns to write kernels\n"
    yield (
        f"{SOURCE}\n"
        "Made by `make experiment`; don't edit. A Qwen3-MoE of"
        f" {first.parameters / 1e6:.1f} million parameters, from scratch, {len(figures.records)}"
        f" seeds. A seed took at most {cpu:.0f} minutes of one core, judging included ({wall:.0f}"
        " minutes of the clock on two cores that had all seeds and other work at once), and at"
        f" most {memory:.1f} GiB a process. Its tokenizer of {counts['vocabulary']} tokens was"
        " learned from the training texts.\n"
    )
    yield (
        f"{SOURCE}\n"
        f"Taught: {counts['taught tasks']} tasks ({counts['taught tasks with one operator']} of"
        f" one operator, the others of several; {counts['taught tasks at another rank']} were made"
        f" of the corpus's at another rank, {counts['taught tasks with other numbers']} with other"
        " numbers) whose prompt and kernel have at most"
        f" {plan.data.tokens_max} tokens each, in {counts['dialogues']} dialogues: single shots at"
        f" several choices of sizes, and {counts['repairs']} repairs: of a kernel for another rank,"
        " dtype or number, or of a planted fault. Held out:"
        f" {counts['held-out tasks with one operator']} tasks of one operator,"
        f" {counts['held-out tasks of taught graphs']} of them of a taught graph at other sizes,"
        " at another rank, in another dtype or with other numbers, the others of graphs that were"
        " not taught; and"
        f" {counts['held-out tasks'] - counts['held-out tasks with one operator']} of several"
        " operators. None was chosen by whether it can be solved or is short. The built-in author,"
        f" whose kernels were taught, solves {counts['held-out tasks solved by the author']} of"
        f" these {counts['held-out tasks']}. GRPO practises on {counts['practice tasks']} tasks"
        " that were neither taught nor are measured.\n"
    )
    yield (
        f"{SOURCE}\n"
        "Single shots take the likeliest token each time. The loop has up to"
        f" {plan.evaluation.turns} replies: the first is that of a single shot, the others are"
        f" drawn at temperature {plan.evaluation.temperature:g} from the task, the reply before,"
        " and its stage and first fault. Trained in float32, measured in bfloat16."
        " Intervals are of 95 %, by a bootstrap over tasks.\n"
    )
    yield LOOKED


LOOKED: Final = (
    "How the data were made (words, pieces, sizes, ranks, numbers, repairs) and measured"
    " (temperature) was chosen after looking at what earlier"
    " models got wrong on held-out tasks, [as the log says](../log.md); weights never saw them."
    " So the figures on known graphs are rather high than low.\n"
)


def _answers(parts: Parts) -> Iterator[str]:
    figures, known = parts.new, parts.known
    yield "On new graphs, and (known) on taught ones at other sizes, ranks, dtypes or numbers:\n"
    yield SOURCE
    lifted, of_new = lift(parts.single), lift(figures)
    yield (
        f"- **Does SFT lift the pass rate?** {_yes(lifted.low > 0)}: {_points(lifted)} with the"
        f" loop on all {len(parts.single.tasks())} held-out single operators (the aim was"
        f" {100 * LIFT_MIN:.0f}: {_met(lifted.value >= LIFT_MIN)}); on new graphs alone"
        f" {_yes(of_new.low > 0).lower()}: {_points(of_new)}; known: {_points(lift(known))}."
    )
    for reward in REWARDS:
        if grpo_name(reward) in figures.models:
            yield _answer_reward(figures, known, reward)
    groups = figures.groups()
    if (share := groups.rescued_share) is not None:
        yield (
            f"- **Does `graded` have gain where `compiles` has none?** In {_percent(share)} of the"
            f" {groups.level_by_compiles} groups of {groups.groups} in which all attempts have"
            f" one `compiles` (the aim was {100 * RESCUED_MIN:.0f} %:"
            f" {_met(share.value >= RESCUED_MIN)})."
        )
    added = [_added(part) for part in (figures, known)]
    yield (
        f"- **What does the loop add?** After SFT {_points(added[0])} over its own first replies;"
        f" known: {_points(added[1])}.\n"
    )


def _why(parts: Parts, plan: ExperimentPlan) -> Iterator[str]:
    new, known = parts.new, parts.known
    compiles = new.share(SFT, Mode.SINGLE_SHOT, compiled)
    yield (
        f"{SOURCE}\n"
        f"Of the {len(new.tasks())} tasks of new graphs {new.count_apart()} have no part in common"
        " with any that is taught: their operator is one that the model has never seen, and nothing"
        " in the prompt says how the chip does it. Of its kernels for new graphs"
        f" {_percent(compiles)} compile and {_percent(new.share(SFT, Mode.SINGLE_SHOT))} are right;"
        " the rest computes what another task asks for. On known graphs"
        f" {_percent(known.share(SFT, Mode.SINGLE_SHOT))} are right.\n"
    )
    yield (
        f"{SOURCE}\n"
        f"GRPO had {plan.grpo.steps} steps of {plan.grpo.tasks_per_step} tasks with"
        f" {plan.grpo.attempts} attempts each, on new graphs, where {_rights(new)} attempts were"
        " right: little to reinforce but kernels that fail later. `compiles` pays for kernels that"
        " run, whatever they compute; `graded` has a gradient nearly everywhere, but so few steps"
        " turn little of it into right kernels.\n"
    )
    yield (
        "The loop tells a model which line fails. That mends some ranks, shapes and syntax; what"
        " these models lack is mostly the operator, and a kernel that computes another one is only"
        " called wrong.\n"
    )


def _rights(figures: Figures) -> str:
    """How many attempts of GRPO were right, of all."""
    found = [figures.attempts(grpo_name(reward)) for reward in REWARDS]
    total = sum(number for number, _, _ in found)
    rights = round(sum(number * share for number, _, share in found))
    return f"{rights} of {total}"


def _added(figures: Figures) -> Interval:
    return figures.gain((SFT, Mode.LOOP, right_at_once), (SFT, Mode.LOOP, right))


def _answer_reward(figures: Figures, known: Figures, reward: str) -> str:
    gains = [
        part.gain((SFT, mode, right), (grpo_name(reward), mode, right))
        for part in (figures, known)
        for mode in (Mode.SINGLE_SHOT, Mode.LOOP)
    ]
    single, loop, known_single, known_loop = map(_points, gains)
    does = any(gain.low > 0 for gain in gains)
    lost = ", and it loses where the interval is below 0" if any(g.high < 0 for g in gains) else ""
    return (
        f"- **Does GRPO with `{reward}` add something?** {_yes(does)}{lost}: over SFT {single}"
        f" single shot, {loop} with the loop; known: {known_single}, {known_loop}."
    )


def _table(figures: Figures) -> Iterator[str]:
    if not figures.tasks():
        yield "No task is held out.\n"
        return
    yield f"Of {len(figures.tasks())} tasks, mean of {len(figures.records)} seeds:\n\n{SOURCE}"
    yield "| model | right, single shot | right, loop | at its first reply | compiles, single |"
    yield "|---|---|---|---|---|"
    for model in figures.models:
        cells = (
            figures.share(model, Mode.SINGLE_SHOT),
            figures.share(model, Mode.LOOP),
            figures.share(model, Mode.LOOP, right_at_once),
            figures.share(model, Mode.SINGLE_SHOT, compiled),
        )
        yield f"| {SHOWN[model]} | {' | '.join(map(_percent, cells))} |"
    yield ""


def _seeds(figures: Figures, which: str) -> Iterator[str]:
    yield SOURCE
    yield f"| {which} graphs | {' | '.join(f'seed {r.seed}' for r in figures.records)} |"
    yield f"|---|{'---|' * len(figures.records)}"
    for model in figures.models:
        for mode in (Mode.SINGLE_SHOT, Mode.LOOP):
            values = (100 * figures.of_seed(r, model, mode) for r in figures.records)
            cells = " | ".join(f"{value:.1f} %" for value in values)
            yield f"| {SHOWN[model]}, {mode.value} | {cells} |"
    yield ""


def _distances(figures: Figures) -> Iterator[str]:
    yield (
        "Share right, by the distance of a task's graph to the nearest that was taught: 0 has all"
        f" parts in common, 1 none.\n\n{SOURCE}"
    )
    models = [model for model in figures.models if model != BASE]
    ranges = figures.by_distance(SFT, Mode.LOOP)
    heads = [f"{low:g} to {min(high, 1):g} ({tasks} tasks)" for low, high, tasks, _ in ranges]
    yield f"| model, mode | {' | '.join(heads)} |"
    yield f"|---|{'---|' * len(heads)}"
    for model in models:
        for mode in (Mode.SINGLE_SHOT, Mode.LOOP):
            cells = " | ".join(_percent(share) for *_, share in figures.by_distance(model, mode))
            yield f"| {SHOWN[model]}, {mode.value} | {cells} |"
    yield ""


def _stages(figures: Figures, which: str) -> Iterator[str]:
    names = ["no kernel", *(stage.value for stage in Stage)]
    yield f"Single shots on {which} graphs, over all seeds, by how far they came:\n\n{SOURCE}"
    yield f"| model | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for model in figures.models:
        found = figures.stages(model, Mode.SINGLE_SHOT)
        yield f"| {SHOWN[model]} | {' | '.join(str(found[name]) for name in names)} |"
    yield ""


def _families(figures: Figures) -> Iterator[str]:
    best = SFT
    yield f"Known graphs by family, {SHOWN[best]}, loop:\n\n{SOURCE}"
    yield "| family | tasks | right |\n|---|---|---|"
    for family, (share, tasks) in figures.families(best, Mode.LOOP).items():
        yield f"| {family} | {tasks} | {100 * share:.0f} % |"
    yield ""


def _groups(figures: Figures) -> Iterator[str]:
    groups = figures.groups()
    yield SOURCE
    if not groups.groups:
        yield "No group was drawn.\n"
        return
    yield (
        f"Of {groups.groups} groups in both arms, {groups.level_by_compiles}"
        f" ({100 * groups.level_by_compiles / groups.groups:.0f} %) have one `compiles` for all"
        f" their attempts, and {groups.level_by_graded}"
        f" ({100 * groups.level_by_graded / groups.groups:.0f} %) one `graded`.\n"
    )
    yield f"{SOURCE}\n| arm | attempts | compile | right |\n|---|---|---|---|"
    for reward in REWARDS:
        number, share, rights = figures.attempts(grpo_name(reward))
        yield f"| `{reward}` | {number} | {100 * share:.1f} % | {100 * rights:.2f} % |"
    yield ""


def _second(second: Mapping[str, Any] | None) -> Iterator[str]:
    if second is None:
        yield "Not run.\n"
        return
    yield (
        f"{SOURCE}\n{second['how']} The loss of a token ends at {second['loss']:.2f}. Of"
        f" {second['tasks']} held-out tasks of one operator {second['before']} are right before and"
        f" {second['after']} after ({second['after_compiled']} compile), single shot. Its"
        " tokenizer writes a kernel in several times as many tokens as ours, so it saw few of"
        " them.\n"
    )


def _percent(share: Interval) -> str:
    return f"{100 * share.value:.1f} % ({100 * share.low:.0f} to {100 * share.high:.0f})"


def _points(gain: Interval) -> str:
    value, low, high = (round(100 * v, 1) + 0.0 for v in (gain.value, gain.low, gain.high))
    return f"{value:+.1f} points ({low:+.1f} to {high:+.1f})"


def _yes(does: bool) -> str:  # noqa: FBT001 - it only words an answer
    return "Yes" if does else "No, not beyond its interval"


def _met(is_met: bool) -> str:  # noqa: FBT001 - it only words an answer
    return "met" if is_met else "missed"
