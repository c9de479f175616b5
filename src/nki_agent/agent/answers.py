"""What a model reads after a tool call: short, the most useful first, and what to do next.

Law: a fault is shown whole or counted, never cut in the middle; many faults of one code are one
fault and a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from nki_agent.base.diagnostic import Diagnostic, Severity, clean
from nki_agent.check.surface import Surface
from nki_agent.cost.summary import format_figure, format_percent
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Stage, Trial, Verdict

FAULTS_SHOWN_MAX = 3
"""Faults in one answer: the first is to be repaired, the others show how far it spreads."""
US_NS = 1000.0
NEXT = {
    Stage.CHEAT: "Next: compute the result from the arguments with `nisa` instructions.",
    Stage.REFUSED: "Next: repair the source at the first line named, then verify again.",
    Stage.UNTRACEABLE: "Next: repair the first fault; `look_up` shows the instruction's signature.",
    Stage.UNFIT: "Next: change tile sizes or reuse tiles so that it fits, then verify again.",
    Stage.WRONG: "Next: repair the first fault; for values, check tails, axes and order of steps.",
    Stage.RIGHT: "Next: `submit`, or `profile_kernel` to make it faster first.",
}


def write_verdict(verdict: Verdict) -> str:
    """A verdict for a model."""
    lines = [f"stage: {verdict.stage.value}"]
    if verdict.failed_at is not None:
        lines.append(f"It fails at other sizes: {verdict.failed_at}.")
    lines += write_faults(verdict.diagnostics)
    if verdict.stage is Stage.WRONG:
        lines += write_trials(verdict.trials)
        if verdict.surface is Surface.ISA:
            lines += write_picture(verdict.trials)
    if verdict.stage is Stage.RIGHT:
        lines.append(write_speed(verdict))
    return "\n".join((*lines, NEXT[verdict.stage]))


def write_look(look: Look) -> str:
    """What checking, tracing and laying out found, for a model."""
    if look.stage is not None:
        lines = [f"stage: {look.stage.value}", *write_faults(look.diagnostics)]
        return "\n".join((*lines, NEXT[look.stage]))
    lines = [f"It compiles: {look.num_instructions} instructions.", *write_faults(look.diagnostics)]
    return "\n".join((*lines, "Next: `verify_kernel` compares its values with the reference."))


def write_faults(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """Errors first, one of each code, then how many more there are."""
    order = tuple(Severity)
    ranked = sorted(diagnostics, key=lambda d: order.index(d.severity))
    counts = Counter(d.code for d in ranked)
    firsts = list({d.code: d for d in reversed(ranked)}.values())
    firsts.sort(key=ranked.index)
    lines = []
    for diagnostic in firsts[:FAULTS_SHOWN_MAX]:
        more = counts[diagnostic.code] - 1
        lines.append(f"{diagnostic}" + (f"\n  and {more} more {diagnostic.code}" if more else ""))
    if rest := firsts[FAULTS_SHOWN_MAX:]:
        lines.append(f"also: {', '.join(d.code for d in rest)}")
    return lines


def write_trials(trials: Sequence[Trial]) -> Iterator[str]:
    """Which trials fail, by the error of each output."""
    for trial in trials:
        for output in trial.outputs:
            state = "right" if output.right else f"error is {output.ratio:.3g} times the limit"
            yield f"trial {trial.number} ({trial.shapes}, {trial.family}) `{output.name}`: {state}"


def write_picture(trials: Sequence[Trial]) -> Iterator[str]:
    """The wrong tile of the first output that has one."""
    drawn = (o for trial in trials for o in trial.outputs if o.picture)
    if (output := next(drawn, None)) is not None:
        yield f"`{clean(output.name)}` around its worst element:"
        yield from output.picture.splitlines()


def write_speed(verdict: Verdict) -> str:
    """The estimate in one sentence."""
    if verdict.latency_ns is None:
        return "No latency estimate."
    text = f"Estimated latency {format_figure(verdict.latency_ns / US_NS)} µs"
    if verdict.percent_of_bound is not None:
        percent = format_percent(verdict.percent_of_bound)
        text += f", {percent} % of the bound; bound by {verdict.bound_by}"
    return text + "."
