"""Evaluations as Markdown tables.

Law: every figure comes from the attempts; shares carry Wilson's interval, means and medians a
bootstrap one, both at 95 %. Compiled, right and fast stand apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from nki_agent.base.counting import count_of
from nki_agent.base.diagnostic import clean
from nki_agent.bench.scores import FAST_THRESHOLDS, Scores
from nki_agent.check.surface import Surface
from nki_agent.evals.config import EvalConfig
from nki_agent.evals.results import ALL, Group, Results
from nki_agent.report.figures import (
    write_interval,
    write_share,
    write_tokens,
    write_usd,
)

LISTED_MAX = 20
"""Ends and codes that a table lists."""
COLUMNS = ("tasks", "compiled %", "right %", "fast₁ %", "mean speedup", "% of bound", "turns")
FIRST = f"{FAST_THRESHOLDS[0]:g}"


def write_report(results: Results) -> str:
    """One evaluation, from what was run to why attempts failed."""
    parts = [f"# {clean(results.name)} on {clean(results.config.versions.suite)}"]
    parts.append(write_head(results))
    groups = list(results.groups())
    for kind, title in ((ALL, "All tasks"), ("level", "By level"), ("category", "By category")):
        chosen = [group for group in groups if group.kind == kind]
        if chosen:
            parts.append(f"## {title}\n\n{write_groups(chosen)}")
    whole = [group for group in groups if group.kind == ALL]
    parts += [f"## Attempts and speed, {g.target}\n\n{write_depth(g.scores)}" for g in whole]
    parts.append(f"## What it cost\n\n{write_costs(whole)}")
    parts.append(f"## How attempts ended\n\n{write_ends(results)}")
    return "\n\n".join(parts) + "\n"


def write_head(results: Results) -> str:
    """What was run, and under which versions."""
    config = results.config
    versions = config.versions
    done = len(results.attempts)
    is_or_are = "is" if results.num_wanted == 1 else "are"
    lines = [
        (
            f"- split `{config.split}`, {count_of(len(config.tasks), 'task')},"
            f" {count_of(config.samples, 'attempt')} each,"
            f" {', '.join(t.value for t in config.targets)}, mode {config.mode.value},"
            f" at most {write_turns(config)} turns"
        ),
        (
            f"- {config.ablation}; words of the prompts: version {config.prompts or 'unknown'};"
            f" archive {config.archive or 'none'}"
        ),
        _write_surface(config.surface),
        f"- {done} of {count_of(results.num_wanted, 'attempt')} {is_or_are} made",
        (
            f"- suite {versions.suite} ({versions.suite_hash[:12]}), cost model"
            f" {versions.cost_model}, baseline {(versions.baseline or 'none')[:12]},"
            f" nki-agent {config.tool}"
        ),
        "- latencies are modelled, not measured; speeds count only where the kernel is right at the"
        " perf shapes" + ("" if config.perf else ", which were not tried (`--perf`)"),
    ]
    past = sorted({clean(a.task) for a in results.attempts if a.is_past_bound})
    if past:
        lines.append(
            "- faster than their bound, which is an error of the bound or of the model, please"
            f" report: {', '.join(f'`{task}`' for task in past)}"
        )
    return "\n".join(lines)


def write_turns(config: EvalConfig) -> str:
    """`10`, or `15, 20, 25 (levels 1, 2, 3)`."""
    found = sorted({config.limits_at(task.level).turns for task in config.tasks})
    if len(found) <= 1:
        return str(found[0] if found else config.limits.turns)
    turns, levels = config.level_turns.values(), config.level_turns
    return f"{', '.join(map(str, turns))} (levels {', '.join(map(str, levels))})"


def _write_surface(surface: Surface) -> str:
    match surface:
        case Surface.NKI:
            return "- surface `nki`: all of the language"
        case Surface.ISA:
            return (
                "- surface `isa`: instructions of `nki.isa` at explicit addresses only; the"
                " baseline's kernels are on the surface `nki`"
            )


def write_groups(groups: Sequence[Group]) -> str:
    """A row for each group, with intervals."""
    rows = [
        (
            group.target if group.kind == ALL else f"{group.name} ({group.target})",
            str(group.scores.tasks),
            write_share(group.scores.compiled),
            write_share(group.scores.right),
            write_share(group.scores.fast.get(FIRST)),
            write_interval(group.scores.mean_speedup, digits=2),
            write_interval(group.scores.percent_of_bound, digits=1),
            write_interval(group.scores.turns, digits=1),
        )
        for group in groups
    ]
    return write_table(("", *COLUMNS), rows)


def write_depth(scores: Scores) -> str:
    """`pass@k` and `fast_p` in full."""
    rows = [(f"pass@{k}", write_share(share)) for k, share in scores.pass_at.items()]
    rows += [(f"fast, more than {p} times", write_share(s)) for p, s in scores.fast.items()]
    rows.append(("% of peak", write_interval(scores.percent_of_peak, digits=1)))
    return write_table(("figure", "value (95 % interval)"), rows)


def write_costs(groups: Sequence[Group]) -> str:
    """Tokens, dollars and time, for a task and for a solved one."""
    rows = [
        (
            group.target,
            write_tokens(group.scores.tokens_per_task),
            write_tokens(group.scores.tokens_per_solved),
            write_usd(group.scores.usd_per_task, is_priced=group.scores.is_priced),
            write_usd(group.scores.usd_per_solved, is_priced=group.scores.is_priced),
            write_interval(group.scores.wall_s, digits=1),
        )
        for group in groups
    ]
    head = ("", "tokens a task", "tokens a solved one", "$ a task", "$ a solved one", "seconds")
    return write_table(head, rows)


def write_ends(results: Results) -> str:
    """Why attempts ended, and the codes of those that are not right."""
    ends = Counter((a.end, a.stage.value if a.stage else "none") for a in results.attempts)
    codes = Counter(code for a in results.attempts if not a.right for code in a.codes)
    rows = [(clean(end), stage, str(count)) for (end, stage), count in ends.most_common(LISTED_MAX)]
    text = write_table(("end", "stage", "attempts"), rows)
    if codes:
        listed = ", ".join(f"{clean(c)} ×{n}" for c, n in codes.most_common(LISTED_MAX))
        text += f"\n\nErrors of attempts that are not right: {listed}."
    return text


def write_comparison(results: Sequence[Results]) -> str:
    """Several evaluations over the same tasks, side by side."""
    rows = []
    for found in results:
        for group in found.groups():
            if group.kind != ALL:
                continue
            scores = group.scores
            rows.append(
                (
                    clean(found.name),
                    group.target,
                    write_share(scores.compiled),
                    write_share(scores.right),
                    write_share(scores.fast.get(FIRST)),
                    write_interval(scores.mean_speedup, digits=2),
                    write_interval(scores.percent_of_bound, digits=1),
                    write_tokens(scores.tokens_per_solved),
                    write_usd(scores.usd_per_solved, is_priced=scores.is_priced),
                )
            )
    head = ("model", "target", *COLUMNS[1:6], "tokens a solved task", "$ a solved task")
    return write_table(head, rows)


def write_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; bars inside of cells are escaped."""
    return "\n".join(_write_rows(head, rows))


def _write_rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        cells = (cell.replace("|", "\\|") for cell in row)
        yield f"| {' | '.join(cells)} |"
