"""`nki-agent bench import`: someone else's suite as a folder of tasks.

Law: an import runs nothing of a suite in this process, and says of every task whether it is fit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.counting import count_of
from nki_agent.bench.importers.fitting import LIMIT_ELEMS
from nki_agent.bench.importers.formats import AUTO, NAMES
from nki_agent.bench.importers.importing import JOURNAL, Step, Wish
from nki_agent.bench.importers.importing import import_suite as run_import
from nki_agent.bench.suite import Status, SuiteRecord
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.inputs import JSON_HELP
from nki_agent.cli.screen import say, show, show_json

LIMIT_ELEMS_MAX = 1 << 40
"""More than any machine holds."""
LIMIT_HELP = "Most elements of a task's tensors; larger sizes are halved until they fit."
UNSANDBOXED_HELP = "Run the suite's code even where nothing can hold it; only if you trust it."


def import_suite(
    form: Annotated[
        str, typer.Argument(metavar="FORMAT", help=f"One of {NAMES}, or {AUTO} to guess it.")
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The suite's folder or file.")],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write; new or empty.")],
    limit_elems: Annotated[
        int, typer.Option(min=1, max=LIMIT_ELEMS_MAX, help=LIMIT_HELP)
    ] = LIMIT_ELEMS,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> None:
    """Turn someone else's suite into a folder of tasks; fails where none of them is fit."""
    wish = Wish(
        form=form,
        path=path,
        out=out,
        limit_elems=limit_elems,
        allow_unsandboxed=allow_unsandboxed,
    )
    guard(_import)(wish, as_json=as_json)


def _import(wish: Wish, *, as_json: bool) -> ExitCode:
    try:
        record = run_import(wish, tell=_tell)
    except KeyboardInterrupt as error:
        if (wish.out / JOURNAL).exists():
            error.add_note(f"what is done is kept in `{wish.out}`: the same command goes on")
        raise
    if as_json:
        show_json(record)
    else:
        show(summarise(record, wish.out))
    is_any_fit = any(row.status is Status.FIT for row in record.task)
    return ExitCode.RIGHT if is_any_fit else ExitCode.NOT_RIGHT


def _tell(step: Step) -> None:
    row = step.row
    if not step.is_new:
        return
    why = f": {row.reasons[0]}" if row.reasons else ""
    say(f"[{step.number}/{step.total}] {row.id}  {row.status.value}{why}")


def summarise(record: SuiteRecord, out: Path) -> str:
    """What was imported, in a few lines, then every unfit task with its reasons."""
    unfit = [row for row in record.task if row.status is Status.UNFIT]
    scaled = sum(any(c.startswith("scaled") for c in row.changes) for row in record.task)
    counts = count_of(len(record.task), "task")
    counts += f", {len(record.task) - len(unfit)} fit, {len(unfit)} unfit"
    lines = [
        f"{record.source.name} ({record.source.format}): {counts}, {scaled} scaled for a CPU",
        f"written to {out}",
    ]
    for row in unfit:
        lines.append(f"unfit  {row.id}")
        lines += [f"       {reason}" for reason in row.reasons]
    return "\n".join(lines)
