"""The data card: how the corpus was made, what is in it, what was turned away and why.

Law: every figure in it is counted from the rows beside it; the head is what `datasets` reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import Template
from typing import Final

from nki_agent.corpus.duplicates import NEAR, VARIANTS
from nki_agent.corpus.freeze import Recipe
from nki_agent.corpus.leaks import NEAR as BENCHMARK_NEAR
from nki_agent.corpus.record import Reason, Split
from nki_agent.corpus.stats import Stats

LICENCE: Final = "apache-2.0"
WHY: Final[Mapping[Reason, str]] = {
    Reason.FAILS: "does not load, run, repeat itself, or cannot be followed without data",
    Reason.NOT_FINITE: "an output is not finite, in float64 or float32",
    Reason.NOISY: "an honest kernel in the task's own dtype might not pass its tolerance",
    Reason.CONSTANT: "an output does not follow the inputs, or is a copy of one",
    Reason.IGNORES_INPUT: "an input changes no output",
    Reason.SATURATED: "a step gives the same number nearly everywhere",
    Reason.REDUNDANT: "a step can be left out and no output changes",
    Reason.BOUND: "the bound on its latency at the perf shapes is too low or too high",
    Reason.EXACT_DUPLICATE: "the text of another task, comments and docstrings aside",
    Reason.STRUCTURAL_DUPLICATE: (
        f"the graph, dtypes and regime of sizes of another, or a graph with {VARIANTS} tasks"
    ),
    Reason.NEAR_DUPLICATE: f"shares at least {NEAR:.0%} of its code's pieces with another",
    Reason.BENCHMARK: (
        "the graph of a benchmark's task, also within a product by a number, or at least "
        f"{BENCHMARK_NEAR:.0%} of its code's pieces"
    ),
    Reason.QUOTA: "its family, bound or pattern has its share",
}


_TEXT: Final = Template("""\
# Kernel-writing tasks for AWS Trainium

$tasks tasks. Each is a Python file that declares its tensors and sizes and holds a PyTorch
reference; a kernel for it is judged on values of the judge's own.

Root hash: `$root`

## How it was made

`$command`
makes it again, byte for byte, without a model and without a network: operators, fusion patterns,
shapes and dtypes are drawn from a grammar, filtered in a fixed order, freed of duplicates and of
benchmark tasks, and chosen by quotas.

$inputs

## What it holds

$counts
## What was turned away

$rejected
## Splits

All variants of a graph, and all graphs of one pattern with the same operators, are in one split.
No task has the graph of a task of the benchmark `nkibench-250`, whatever its sizes or dtypes.

$distance
## Licence

Apache-2.0, as nki-agent itself. The tasks were drawn from a grammar; nothing was copied.
""")


def write_card(
    stats: Stats, recipe: Recipe, *, root_sha256: str, suffix: str, distance: Mapping[str, float]
) -> str:
    """The whole README.md; `suffix` is that of the data files."""
    text = _TEXT.substitute(
        tasks=f"{stats.tasks:,}",
        root=root_sha256,
        command=_write_command(recipe),
        inputs="\n".join(_list_inputs(recipe)),
        counts="\n".join(_write_counts(stats)),
        rejected="\n".join(_write_rejected(stats)),
        distance="\n".join(_write_distance(distance)),
    )
    return "\n".join([*_write_head(stats, suffix), text])


def _write_head(stats: Stats, suffix: str) -> list[str]:
    lines = ["---", f"license: {LICENCE}", "configs:", "- config_name: default", "  data_files:"]
    for split in Split:
        if stats.by_split.get(split.value):
            lines += [f"  - split: {split.value}", f"    path: data/{split.value}-*.{suffix}"]
    return [*lines, "tags:", "- code", "- aws-neuron", "- kernels", "---", ""]


def _write_command(recipe: Recipe) -> str:
    options = {"candidates": recipe.candidates, "tasks": recipe.tasks, "seed": recipe.root}
    return " ".join(["nki-agent data build", *(f"--{k} {v}" for k, v in options.items())])


def _list_inputs(recipe: Recipe) -> Iterator[str]:
    yield f"- grammar: `{recipe.grammar_sha256}`"
    for name in recipe.against:
        yield f"- kept out beside our own benchmark: the folder with the hash `{name}`"
    if recipe.written_sha256:
        yield f"- rows that a model wrote: `{recipe.written_sha256}`"


def _write_counts(stats: Stats) -> Iterator[str]:
    patterns, operators = stats.patterns, stats.operators_seen
    yield f"{stats.graphs:,} graphs, {patterns:,} patterns, {operators:,} operators."
    yield ""
    for title, counts in (
        ("split", stats.by_split),
        ("bound", stats.by_bound),
        ("family", stats.by_family),
        ("level", stats.by_level),
        ("rank", stats.by_rank),
        ("dtype", stats.by_dtype),
        ("origin", stats.by_origin),
    ):
        yield from write_table(("tasks", title), counts, total=stats.tasks)


def write_table(head: tuple[str, str], counts: Mapping[str, int], *, total: int) -> Iterator[str]:
    """Counts with their shares."""
    yield f"| {head[1]} | {head[0]} | share |"
    yield "|---|---:|---:|"
    for name, count in counts.items():
        yield f"| {name} | {count:,} | {count / max(1, total):.1%} |"
    yield ""


def _write_distance(distance: Mapping[str, float]) -> Iterator[str]:
    if not distance:
        return
    yield "Distance of a test task's graph to the nearest of the training tasks, from 0 to 1:"
    yield ", ".join(f"{name} {value:.2f}" for name, value in distance.items()) + "."
    yield ""


def _write_rejected(stats: Stats) -> Iterator[str]:
    yield "| reason | candidates | meaning | examples |"
    yield "|---|---:|---|---|"
    for turned in stats.rejected:
        shown = "; ".join(f"`{row.id}`: {_escape(row.detail)}" for row in turned.examples)
        yield f"| {turned.reason.value} | {turned.count:,} | {WHY[turned.reason]} | {shown} |"
    yield ""


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
