"""What a model reads after a tool call: short, one issue first, and what to do next.

Law: a fault is shown whole or summed up, never cut in the middle; many faults of one code are one
fault and a count. The first line names the stage where there is one, the last says what to do next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nki_agent.agent.brief import sum_up, write_brief
from nki_agent.agent.patterns import find_pattern
from nki_agent.agent.repeats import OFTEN, Earlier
from nki_agent.base.catalogue import CATALOGUE
from nki_agent.base.diagnostic import Diagnostic, Severity, clean
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cost.summary import format_figure, format_percent
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Stage, Trial, Verdict

LATER_MAX = 2
"""Faults that are named after the first, in one line each; the others are counted."""
ADVICE_MAX = 1
LINE_BYTES_MAX = 160
WHAT_BYTES_MAX = 160
OUTPUTS_MAX = 4
CLOSE = 0.8
"""Share of the allowed error above which an answer says how near it is."""
US_NS = 1000.0
CAUSES = frozenset({"NK503", "NK504", "NK505", "NK506"})
"""Warnings that say why values are wrong: they come before the wrong values."""
NEXT = {
    Stage.CHEAT: "compute the result from the arguments with `nisa` instructions",
    Stage.REFUSED: "repair only that line, then send the whole kernel again",
    Stage.UNTRACEABLE: "repair only that; leave all else as it is, and send the kernel again",
    Stage.UNFIT: "repair only that; smaller or reused tiles fit, and send the kernel again",
    Stage.WRONG: "find the one step that explains this, repair only that, and send it again",
}
"""What to do after each stage but the last, for which it depends on the tools that are offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is known of a kernel beside its verdict, to answer better."""

    source: str = ""
    fix: str = ""
    """The checker's own edits as text."""
    times: int = 0
    """How often its first fault has been seen."""
    target: Target | None = None
    """For a worked pattern; None where none may be shown, since it gives no addresses."""
    has_verify: bool = True
    """Whether `verify_kernel` may be called next."""
    has_profile: bool = True
    has_submit: bool = True
    """Whether there is an episode that `submit` ends."""


PLAIN = Draft()


def write_verdict(verdict: Verdict, draft: Draft = PLAIN) -> str:
    """A verdict for a model."""
    lines = [f"stage: {verdict.stage.value}"]
    if verdict.stage is Stage.RIGHT:
        lines += [*write_closeness(verdict.trials), write_speed(verdict)]
        lines += write_advice(verdict.diagnostics)
    else:
        if verdict.failed_at is not None:
            lines.append(f"It fails at other sizes: {sum_up(verdict.failed_at)}.")
        lines += write_faults(verdict.diagnostics, draft)
        if verdict.stage is Stage.WRONG:
            lines += write_trials(verdict.trials)
            if verdict.surface is Surface.ISA:
                lines += write_picture(verdict.trials)
    return "\n".join((*lines, f"Next: {_next_of(verdict.stage, draft)}."))


def write_look(look: Look, draft: Draft = PLAIN) -> str:
    """What checking, tracing and laying out found, for a model."""
    if look.stage is not None:
        lines = [f"stage: {look.stage.value}", *write_faults(look.diagnostics, draft)]
        return "\n".join((*lines, f"Next: {_next_of(look.stage, draft)}."))
    lines = [f"It compiles: {look.num_instructions} instructions."]
    lines += write_advice(look.diagnostics)
    return "\n".join((*lines, _next_of_compiled(draft)))


def rank_faults(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """What to repair first: causes of wrong values, then errors, then warnings."""
    order = tuple(Severity)
    return sorted(diagnostics, key=lambda d: (d.code not in CAUSES, order.index(d.severity)))


def first_fault(diagnostics: Sequence[Diagnostic]) -> Diagnostic | None:
    """The one issue that an answer puts first."""
    ranked = [d for d in rank_faults(diagnostics) if d.severity is not Severity.ADVICE]
    return ranked[0] if ranked else None


def write_faults(diagnostics: Sequence[Diagnostic], draft: Draft = PLAIN) -> list[str]:
    """The first issue in full, the next ones in a line each, the rest counted."""
    ranked = rank_faults(diagnostics)
    counts = Counter(d.code for d in ranked)
    firsts = list({d.code: d for d in reversed(ranked)}.values())
    firsts.sort(key=ranked.index)
    if not firsts:
        return []
    head, *others = firsts
    lines = [f"Repair first: {write_brief(head)}", *_quote(head, draft.source)]
    if draft.fix:
        lines.append(draft.fix)
    lines += write_again(head, draft)
    if more := counts[head.code] - 1:
        lines.append(f"The same in {more} more place{'s' if more > 1 else ''}.")
    real = [d for d in others if d.severity is not Severity.ADVICE]
    lines += [f"Later: {_line(d, counts[d.code])}" for d in real[:LATER_MAX]]
    if rest := real[LATER_MAX:]:
        lines.append(f"also: {', '.join(d.code for d in rest)}")
    return lines


def write_again(fault: Diagnostic, draft: Draft) -> list[str]:
    """What is said of a fault that was there before."""
    if draft.times < 2:  # noqa: PLR2004 - once is no repeat
        return []
    if draft.times < OFTEN:
        return [f"This is {fault.code} again: the last change did not touch its cause."]
    often = "third" if draft.times == OFTEN else f"{draft.times}th"
    lines = [f"This is {fault.code} for the {often} time: stop varying the same line."]
    return lines + write_rule(fault.code, draft.target)


def write_rule(code: str, target: Target | None) -> list[str]:
    """The card of a code, and a pattern that keeps its rule."""
    info = CATALOGUE.get(code)
    lines = [] if info is None else [f"The rule: {info.explanation} {info.hint}"]
    pattern = None if target is None else find_pattern(code, target=target)
    return lines if pattern is None else [*lines, str(pattern)]


def write_same(earlier: Earlier, draft: Draft) -> str:
    """The answer to a kernel that was sent before."""
    stage = earlier.stage
    lines = [f"stage: {stage.value}"] if stage is not None else []
    lines.append(
        f"This is the kernel that you sent to `{earlier.tool.value}` before (call {earlier.call}),"
        " unchanged: the result is the same."
    )
    if stage is None:
        return "\n".join((*lines, "It compiles.", _next_of_compiled(draft)))
    if stage is Stage.RIGHT:
        end = "`submit` it, or change it" if draft.has_submit else "change it"
        return "\n".join((*lines, f"Next: {end} to make it faster."))
    if earlier.fault is not None:
        lines.append(f"Still: {_line(earlier.fault, 1)}")
        lines += write_rule(earlier.fault.code, draft.target)
    return "\n".join((*lines, "Next: change the line that is named, and then call again."))


def write_advice(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """What does not fail a kernel: warnings, then the first advice."""
    warnings = [d for d in diagnostics if d.severity is Severity.WARNING]
    advice = [d for d in diagnostics if d.severity is Severity.ADVICE]
    return [write_brief(d) for d in (*warnings[:LATER_MAX], *advice[:ADVICE_MAX])]


def write_trials(trials: Sequence[Trial]) -> Iterator[str]:
    """How far the outputs of the trial that failed are off."""
    failed = [trial for trial in trials if not trial.right]
    for trial in failed[-1:]:
        before = len(trials) - len(failed)
        yield (
            f"trial {trial.number} ({trial.shapes}, {trial.family} inputs) fails; {before} before"
            " it are right"
        )
        for output in trial.outputs[:OUTPUTS_MAX]:
            state = "right" if output.right else f"error is {output.ratio:.3g} times the limit"
            yield f"  `{sum_up(output.name, max_bytes=LINE_BYTES_MAX)}`: {state}"
        if (more := len(trial.outputs) - OUTPUTS_MAX) > 0:
            yield f"  and {more} more outputs"


def write_closeness(trials: Sequence[Trial]) -> Iterator[str]:
    """Where a right kernel comes near the limit, and other inputs might take it past."""
    largest = max((output.ratio for trial in trials for output in trial.outputs), default=0.0)
    if largest > CLOSE:
        yield f"close: errors reach {100 * largest:.0f} % of the limit."


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


def write_table(verdicts: Sequence[Verdict], order: Sequence[int]) -> list[str]:
    """One line a kernel, in this order: its number, how far it came, and why."""
    lines = ["kernel  stage        latency     bound  first issue"]
    for index in order:
        verdict = verdicts[index]
        latency = percent = "-"
        if verdict.latency_ns is not None:
            latency = f"{format_figure(verdict.latency_ns / US_NS)} µs"
        if verdict.percent_of_bound is not None:
            percent = f"{format_percent(verdict.percent_of_bound)} %"
        fault = first_fault(verdict.diagnostics) if verdict.stage is not Stage.RIGHT else None
        issue = "" if fault is None else _line(fault, 1)
        row = f"#{index + 1:<6} {verdict.stage.value:<12} {latency:<11} {percent:<6} {issue}"
        lines.append(row.rstrip())
    return lines


def _next_of(stage: Stage, draft: Draft) -> str:
    """What to do after a stage, with tools that are offered."""
    if stage is not Stage.RIGHT:
        return NEXT[stage]
    end = "`submit`; or make it faster first" if draft.has_submit else "make it faster, or keep it"
    return f"{end}, where the profile says" if draft.has_profile and draft.has_submit else end


def _next_of_compiled(draft: Draft) -> str:
    if draft.has_verify:
        return "Next: `verify_kernel` compares its values with the reference."
    end = ", then `submit`" if draft.has_submit else ""
    return f"Next: check its values in your head{end}."


def _quote(fault: Diagnostic, source: str) -> list[str]:
    """The source line that a fault names."""
    lines = source.splitlines()
    number = fault.where[-1].line if fault.where else 0
    if not 0 < number <= len(lines) or not lines[number - 1].strip():
        return []
    return [f"  {number} | {sum_up(lines[number - 1].strip(), max_bytes=LINE_BYTES_MAX)}"]


def _line(fault: Diagnostic, count: int) -> str:
    place = f"{fault.where[-1]}: " if fault.where else ""
    times = f" ×{count}" if count > 1 else ""
    return f"{place}{fault.code}{times} {sum_up(fault.what, max_bytes=WHAT_BYTES_MAX)}"
