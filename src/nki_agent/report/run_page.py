"""One run as one HTML page: its path, verdicts, latency, cost, the kernel with its profile.

Law: text of models, kernels and tasks is escaped, always; the page works from disk and loads
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from nki_agent.base.diagnostic import clean
from nki_agent.cost.summary import Summary, format_summary
from nki_agent.llm.protocol import Usage
from nki_agent.report.figures import NONE, write_tokens, write_us, write_usd
from nki_agent.report.page import fill_page
from nki_agent.report.path_chart import draw_latency, draw_path
from nki_agent.report.stored import StoredRun, StoredSample
from nki_agent.report.transcript import Line, Transcript, diff_kernels
from nki_agent.verify.kernel import MAIN_NAME
from nki_agent.verify.verdict import Verdict

MS_PER_S = 1e3
PERCENT = 100.0
NEWLINE = "\n"
HOT_SHARE = 0.1
"""From here on a source line stands out."""


def write_run_page(run: StoredRun) -> str:
    """The page."""
    started = run.best.started
    title = f"{started.task}: {started.model} for {started.target}"
    body = [_write_facts(run)]
    if len(run.samples) > 1:
        body += ["<h2>Samples</h2>", _write_samples(run)]
    for sample in run.samples:
        body += _write_path(run, sample)
    if run.verdict is not None:
        body += ["<h2>Last verdict</h2>", *_write_verdict(run.verdict)]
    body += ["<h2>What it cost</h2>", _write_cost(run)]
    if run.kernel is not None:
        body += ["<h2>The kernel</h2>", *_write_kernel(run.kernel, run.profile)]
    if run.start is not None and run.kernel is not None:
        body += ["<h2>What changed of the user's kernel</h2>"]
        body.append(_write_lines(diff_kernels(run.start, run.kernel)))
    body.append("<h2>Conversation</h2>")
    body += [_write_conversation(run, sample) for sample in run.samples]
    if run.task is not None:
        body.append(f"<details><summary>The task</summary><pre>{escape(run.task)}</pre></details>")
    return fill_page(title, body)


def _write_samples(run: StoredRun) -> str:
    """A line for each sample, the one whose kernel counts in bold."""
    rows = []
    for sample in run.samples:
        end = sample.finished
        row = (
            str(sample.number),
            "cut off" if end is None else end.end.value.replace("_", " "),
            NONE if end is None or end.stage is None else end.stage.value,
            str(len(sample.turns)),
            write_tokens(sample.usage.total_tokens),
            write_usd(sample.usd),
        )
        is_best = run.kernel is not None and sample is run.best
        rows.append(tuple(f"<b>{cell}</b>" for cell in row) if is_best else row)
    return _table(("sample", "end", "stage", "turns", "tokens", "$"), rows)


def _write_path(run: StoredRun, sample: StoredSample) -> Iterator[str]:
    """How far each kernel of a sample came, and how fast it was."""
    if not sample.steps:
        return
    yield f"<h2>Path of attempts{_name(run, sample)}</h2>"
    # A profile says nothing new of how far a kernel comes.
    judged = [step for step in sample.steps if step.stage is not None or step.latency_ns is None]
    yield draw_path(judged, title="How far each kernel came")
    if any(step.latency_ns is not None for step in sample.steps):
        bound = None if run.verdict is None else run.verdict.bound_ns
        yield draw_latency(sample.steps, bound_ns=bound, title="Estimated latency over turns, µs")
    yield _write_steps(sample)


def _name(run: StoredRun, sample: StoredSample) -> str:
    return f", sample {sample.number}" if len(run.samples) > 1 else ""


def _write_facts(run: StoredRun) -> str:
    started, finished = run.best.started, run.best.finished
    facts = [("begun", started.at), ("mode", started.mode.value), ("prompt", started.prompt_hash)]
    if finished is None:
        facts.insert(0, ("end", "cut off"))
    else:
        end = f"{finished.end.value.replace('_', ' ')}: {clean(finished.message)}"
        facts.insert(0, ("end", end))
        facts.append(("wall time", f"{finished.wall_ms / MS_PER_S:.1f} s"))
    if run.verdict is not None and run.verdict.latency_ns is not None:
        percent = run.verdict.percent_of_bound
        bound = "" if percent is None else f", {percent:.0f} % of the bound"
        facts.insert(
            1, ("latency", f"{write_us(run.verdict.latency_ns)} µs (modelled, not measured){bound}")
        )
    if run.error is not None:
        facts.append(("error", clean(run.error.strip())))
    return _table(("", ""), [(name, escape(value)) for name, value in facts])


def _write_steps(sample: StoredSample) -> str:
    rows = [
        (
            str(step.turn),
            escape(clean(step.tool)),
            "compiles" if step.stage is None else step.stage.value,
            NONE if step.latency_ns is None else write_us(step.latency_ns),
            f"{step.wall_ms / MS_PER_S:.2f}",
        )
        for step in sample.steps
    ]
    return _table(("turn", "tool", "stage", "latency µs", "seconds"), rows)


def _write_verdict(verdict: Verdict) -> Iterator[str]:
    at = "" if verdict.failed_at is None else f" at other sizes: {escape(clean(verdict.failed_at))}"
    yield f"<p><b>{verdict.stage.value}</b>{at}</p>"
    if verdict.diagnostics:
        text = "\n".join(map(str, verdict.diagnostics))
        yield f"<pre>{escape(text)}</pre>"
    rows = [
        (
            str(trial.number),
            escape(trial.shapes),
            escape(trial.family),
            escape(clean(output.name)),
            NONE if output.rel_l2 is None else f"{output.rel_l2:.2e}",
            f"{output.ratio * PERCENT:.3g}",
            "right" if output.right else "WRONG",
        )
        for trial in verdict.trials
        for output in trial.outputs
    ]
    if rows:
        head = ("trial", "shapes", "values", "output", "relative L2 error", "% of limit", "")
        yield _table(head, rows)


def _write_cost(run: StoredRun) -> str:
    several = len(run.samples) > 1
    rows = []
    for sample in run.samples:
        calls = Counter(step.turn for step in sample.steps)
        rows += [
            (
                f"{sample.number}.{turn.turn}" if several else str(turn.turn),
                *_write_usage(turn.reply.usage),
                f"{turn.model_ms / MS_PER_S:.1f}",
                str(calls[turn.turn]),
            )
            for turn in sample.turns
        ]
    turns = [turn for sample in run.samples for turn in sample.turns]
    total = (
        f"<b>all</b> ({write_usd(run.usd)} $)",
        *_write_usage(run.usage),
        f"{sum(turn.model_ms for turn in turns) / MS_PER_S:.1f}",
        str(sum(len(sample.steps) for sample in run.samples)),
    )
    first = "sample.turn" if several else "turn"
    head = (first, "tokens in", "of them cached", "tokens out", "model s", "kernels tried")
    return _table(head, [*rows, total])


def _write_usage(usage: Usage) -> tuple[str, str, str]:
    counts = (usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    sent, cached, written = map(write_tokens, counts)
    return sent, cached, written


def _write_kernel(kernel: str, profile: Summary | None) -> Iterator[str]:
    shares = {} if profile is None else _find_shares(profile)
    if profile is not None:
        yield f"<pre>{escape(format_summary(profile))}</pre>"
        yield "<p>Beside each line: its part of the chain that decides the latency.</p>"
    rows = []
    for number, text in enumerate(kernel.splitlines(), start=1):
        share = shares.get(number, 0.0)
        hot = ' class="hot"' if share >= HOT_SHARE else ""
        part = f"{share * PERCENT:.0f} %" if share else ""
        rows.append(
            f"<tr{hot}><td>{number}</td><td>{part}</td><td>{escape(text.expandtabs(4))}</td></tr>"
        )
    yield f'<table class="source">{"".join(rows)}</table>'


def _find_shares(profile: Summary) -> dict[int, float]:
    """The part of the latency that each line of the main file has."""
    shares: dict[int, float] = {}
    for line in profile.lines:
        file, _, place = line.place.rpartition(":")
        if file == MAIN_NAME and place.isdecimal():
            shares[int(place)] = shares.get(int(place), 0.0) + line.share
    return shares


def _write_conversation(run: StoredRun, sample: StoredSample) -> str:
    transcript = Transcript()
    text = _write_lines(line for event in sample.events for line in transcript.write(event))
    # Of several, the one whose kernel counts is what a reader wants first.
    is_open = " open" if sample is run.best else ""
    summary = f"{len(sample.turns)} turns{_name(run, sample)}"
    return f"<details{is_open}><summary>{summary}</summary>{text}</details>"


def _write_lines(lines: Iterable[Line]) -> str:
    spans = [f'<span class="{tone.value}">{escape(text)}</span>' for tone, text in lines]
    return f"<pre>{NEWLINE.join(spans)}</pre>"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th>{cell}</th>" for cell in head) if any(head) else ""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
