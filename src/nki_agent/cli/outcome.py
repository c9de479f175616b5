"""A verdict as people read it, and the exit code that it means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nki_agent.agent.answers import write_picture
from nki_agent.agent.episode import End, Episode
from nki_agent.base.diagnostic import Diagnostic, Severity, clean
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.command import ExitCode
from nki_agent.cli.inputs import as_word
from nki_agent.cli.screen import Colour, paint, show, show_json, write_table
from nki_agent.cost.summary import Summary, format_figure, format_percent
from nki_agent.task.comparison import HUGE
from nki_agent.verify.verdict import OutputError, Stage, Verdict

US_NS = 1000.0
INDENT = " " * 12
"""Where values begin in a report."""
PERCENT = 100.0
PERFETTO = "https://ui.perfetto.dev"


def exit_code_of(stage: Stage) -> ExitCode:
    """The exit code of a kernel that came this far."""
    match stage:
        case Stage.RIGHT:
            return ExitCode.RIGHT
        case Stage.CHEAT:
            return ExitCode.CHEAT
        case Stage.REFUSED | Stage.UNTRACEABLE | Stage.UNFIT | Stage.WRONG:
            return ExitCode.NOT_RIGHT


def write_outcome(verdict: Verdict) -> Iterator[str]:
    """Stage, faults, the error of each output on each seed, and the estimate."""
    at = "" if verdict.failed_at is None else f" at other sizes: {clean(verdict.failed_at)}"
    yield f"verdict     {paint_stage(verdict.stage)}{at}"
    yield from write_diagnostics(
        [d for d in verdict.diagnostics if d.severity is not Severity.ADVICE]
    )
    if verdict.trials:
        yield from (f"  {line}" for line in write_table(_trial_rows(verdict)))
    if verdict.surface is Surface.ISA:
        yield from (f"  {line}" for line in write_picture(verdict.trials))
    if verdict.latency_ns is not None:
        yield from _write_speed(verdict)


def write_advice(verdict: Verdict) -> Iterator[str]:
    """What would make it faster, where a verdict says so."""
    advice = [d for d in verdict.diagnostics if d.severity is Severity.ADVICE]
    if advice:
        yield "advice"
        yield from write_diagnostics(advice)


def write_diagnostics(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    """Every finding, indented."""
    for diagnostic in diagnostics:
        yield from (f"  {line}" for line in str(diagnostic).splitlines())


def write_next(kernel: Path, *, task: Path, timeline: Path, summary: Summary) -> Iterator[str]:
    """Where to look after a verdict on a kernel that can run."""
    more = f"--task {as_word(task)}"
    if summary.target != DEFAULT_TARGET.value:
        more += f" --target {summary.target}"
    yield f"timeline    {timeline} (open it in {PERFETTO})"
    advice = [f"{number}. {line}" for number, line in enumerate(summary.advice, start=1)]
    commands = [f"nki-agent {name} {as_word(kernel)} {more}" for name in ("profile", "show")]
    first, *others = (*advice, *commands)
    yield f"next        {first}"
    yield from (f"{INDENT}{line}" for line in others)


def report_unfit(stage: Stage, diagnostics: Sequence[Diagnostic], *, as_json: bool) -> ExitCode:
    """Print what keeps a kernel from running; the exit code that it means."""
    if as_json:
        show_json({"stage": stage, "diagnostics": diagnostics})
    else:
        show("\n".join((f"verdict     {paint_stage(stage)}", *write_diagnostics(diagnostics))))
    return exit_code_of(stage)


def paint_stage(stage: Stage) -> str:
    """The stage, in a colour where there are some."""
    return paint(stage.value, Colour.GOOD if stage is Stage.RIGHT else Colour.BAD)


def _trial_rows(verdict: Verdict) -> list[list[str]]:
    """A row for each output of each trial; the shapes only where there are several."""
    several = len({trial.shapes for trial in verdict.trials}) > 1
    rows = [["trial", *(["shapes"] if several else []), "values", "output", "rel L2", "largest"]]
    rows[0] += ["of limit", ""]
    rows += [
        [
            str(trial.number),
            *([trial.shapes] if several else []),
            trial.family,
            *_output_cells(output),
        ]
        for trial in verdict.trials
        for output in trial.outputs
    ]
    return rows


def _output_cells(output: OutputError) -> list[str]:
    return [
        clean(output.name),
        _number(output.rel_l2),
        _number(output.max_abs),
        _share(output),
        "right" if output.right else "WRONG",
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"


def _share(output: OutputError) -> str:
    if output.ratio >= HUGE:
        return "-"
    return f"{output.ratio * PERCENT:.3g} %"


def _write_speed(verdict: Verdict) -> Iterator[str]:
    assert verdict.latency_ns is not None
    time = format_figure(verdict.latency_ns / US_NS)
    at = "" if verdict.speed_shapes is None else f" at the {clean(verdict.speed_shapes)} shapes"
    yield f"latency     {time} µs on {verdict.target}{at} (modelled, not measured)"
    if verdict.limited_by:
        yield f"limited by  {verdict.limited_by}"
    if verdict.percent_of_bound is not None and verdict.bound_ns is not None:
        bound = f"{format_figure(verdict.bound_ns / US_NS)} µs ({verdict.bound_by})"
        percent = format_percent(verdict.percent_of_bound)
        yield f"bound       {percent} % of the bound, which is {bound}"
    if verdict.utilisation:
        busy = ", ".join(
            f"{engine} {share * PERCENT:.0f} %" for engine, share in verdict.utilisation.items()
        )
        yield f"busy        {busy}"


def exit_code_of_episode(episode: Episode) -> ExitCode:
    """By the verdict, else by the reason for its end."""
    if episode.verdict is not None:
        return exit_code_of(episode.verdict.stage)
    match episode.end:
        case End.MODEL_ERROR | End.MODEL_AWAY | End.FAILED:
            return ExitCode.FAILURE
        case End.INTERRUPTED:
            return ExitCode.INTERRUPTED
        case (
            End.SOLVED
            | End.SUBMITTED_WRONG
            | End.TURNS
            | End.WALL_TIME
            | End.TOKENS
            | End.BUDGET
            | End.RUN_BUDGET
            | End.NO_KERNEL
            | End.GAVE_UP
        ):
            return ExitCode.NOT_RIGHT
