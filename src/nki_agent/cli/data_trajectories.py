"""`nki-agent data trajectories DIR`: conversations for training, made of a corpus's solutions."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.clock import SystemClock
from nki_agent.base.counting import count_of
from nki_agent.base.errors import UsageError
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.data_solve import (
    WORKERS_HELP,
    Folder,
    choose_workers,
    note,
    open_tasks,
    say_failures,
)
from nki_agent.cli.inputs import (
    COUNT_MAX,
    JSON_HELP,
    UNSANDBOXED_HELP,
    Seed,
    printable,
)
from nki_agent.cli.rate import Rate
from nki_agent.cli.screen import say, show, show_json
from nki_agent.corpus.chat import Kind, make_counter
from nki_agent.corpus.making import MADE_KINDS
from nki_agent.corpus.publishing import FOLDER, TOKENS_MAX, Stats, publish
from nki_agent.corpus.trajectories import REPAIRS, Making, Progress
from nki_agent.farm.executor import WORKERS_MAX

KINDS_HELP = f"Some of {', '.join(MADE_KINDS)}, joined by commas; all if left out."
LIMIT_HELP = "Only the first so many solved tasks."
REPAIRS_HELP = "Planted faults for each task, each of another family."
TOKENIZER_HELP = "Count tokens by the `tokenizer.json` in this folder; else a quarter of the bytes."
TOKENS_HELP = "Longer rows are left out."
LINES_SHOWN = 12

Tokenizer = Annotated[Path | None, typer.Option(metavar="DIR", help=TOKENIZER_HELP)]
MaxTokens = Annotated[int, typer.Option(min=1, max=COUNT_MAX, help=TOKENS_HELP)]


def trajectories(
    folder: Folder,
    *,
    kinds: Annotated[str | None, typer.Option(help=KINDS_HELP)] = None,
    limit: Annotated[int | None, typer.Option(min=1, max=COUNT_MAX, help=LIMIT_HELP)] = None,
    repairs: Annotated[int, typer.Option(min=1, max=6, help=REPAIRS_HELP)] = REPAIRS,
    tokenizer: Tokenizer = None,
    max_tokens: MaxTokens = TOKENS_MAX,
    workers: Annotated[int | None, typer.Option(min=1, max=WORKERS_MAX, help=WORKERS_HELP)] = None,
    seed: Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> None:
    """Make conversations of a corpus's solutions; goes on where it was stopped."""

    def begin() -> ExitCode:
        chosen = MADE_KINDS if kinds is None else read_kinds(kinds)
        counter = make_counter(tokenizer)
        tasks, broken = open_tasks(folder)
        making = Making(
            folder=folder,
            tasks=tasks,
            root_seed=0 if seed is None else seed,
            workers=choose_workers(workers),
            kinds=chosen,
            repairs=repairs,
            limit=limit,
            allow_unsandboxed=allow_unsandboxed,
        )
        rate = Rate(clock=SystemClock(), noun="tasks")
        progress = making.carry_out(watch=lambda p: _watch(rate, p), warn=note)
        if not progress.total:
            raise UsageError(
                f"`{folder}` has no solution yet", hint=f"`nki-agent data solve {folder}`"
            )
        stats = publish(folder, tasks, counter=counter, tokens_max=max_tokens)
        return conclude(folder, stats, failed=progress.failed, broken=broken, as_json=as_json)

    guard(begin)()


def read_kinds(text: str) -> tuple[Kind, ...]:
    """The kinds that `--kinds` names, in their own order.

    Raises:
        UsageError: A name stands for no kind that can be made without a model.
    """
    known = {kind.value: kind for kind in MADE_KINDS}
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"some of {', '.join(known)}"
            if name in set(Kind):
                hint = "`nki-agent data sample` makes it"
            raise UsageError(f"`--kinds` names no kind `{name}`", hint=hint)
    return tuple(kind for kind in MADE_KINDS if kind.value in names)


def conclude(
    folder: Path, stats: Stats, *, failed: dict[str, str], broken: int, as_json: bool
) -> ExitCode:
    """Show what was published, and what failed."""
    if as_json:
        show_json({"folder": printable(folder / FOLDER), "stats": stats, "failed": failed})
    else:
        show("\n".join(_write(folder, stats)))
    say_failures(failed)
    if failed:
        say("hint: the same command tries them again")
        return ExitCode.FAILURE
    return ExitCode.USAGE if broken else ExitCode.RIGHT


def _watch(rate: Rate, progress: Progress) -> None:
    rows = progress.rows.total()
    rate.show(progress.done, total=progress.total, rest=f"; {count_of(rows, 'row')}")


def _write(folder: Path, stats: Stats) -> Iterator[str]:
    yield f"rows      {stats.rows}, {stats.tokens} tokens ({stats.counted_by})"
    for name, counts in (("kinds", stats.by_kind), ("splits", stats.by_split)):
        yield f"{name:<10}" + ", ".join(f"{count} {what}" for what, count in counts.items())
    for what, counts in (("left out", stats.left_out), ("discarded", stats.discarded)):
        for reason, count in sorted(counts.items(), key=lambda i: -i[1])[:LINES_SHOWN]:
            yield f"{what:<10}{count}  {reason}"
    yield f"written   {printable(folder / FOLDER)}"
