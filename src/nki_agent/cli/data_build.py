"""`nki-agent data build`: the corpus, made again from the grammar."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.clock import SystemClock
from nki_agent.base.counting import count_of
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.writing import writing
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.data_solve import SEED_0_HELP, Workers, choose_workers
from nki_agent.cli.inputs import COUNT_MAX, JSON_HELP, read_seed
from nki_agent.cli.rate import Rate
from nki_agent.cli.screen import say, show, show_json
from nki_agent.corpus.build import (
    CANDIDATES,
    JOURNAL,
    ROOT,
    TASKS_WANTED,
    Built,
    Listener,
    Step,
    Wish,
    build,
)
from nki_agent.corpus.freeze import write_frozen
from nki_agent.corpus.release import CARD, PAGE

OUT_HELP = "The folder to write; new or empty."
TASKS_HELP = "Most tasks that are chosen."
CANDIDATES_HELP = "About how many are drawn."
GRAMMAR_HELP = "A TOML file, or a folder of them; ours if left out."
AGAINST_HELP = "A folder of tasks to keep out beside our benchmark; may be given again."
WRITTEN_HELP = "JSON lines with `source` and `model`: tasks that a model wrote, filtered alike."
RESUME_HELP = "Go on with a build that was stopped."
FREEZE_HELP = "Write the list of what was made there, as the package ships it."

UNSANDBOXED_HELP = "Run the code of `--against` and `--model-written` though nothing can hold it."

_DEFAULT_OUT = Path("corpus")


def data_build(
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help=OUT_HELP)] = _DEFAULT_OUT,
    tasks: Annotated[int, typer.Option(min=1, max=COUNT_MAX, help=TASKS_HELP)] = TASKS_WANTED,
    candidates: Annotated[
        int, typer.Option(min=1, max=COUNT_MAX, help=CANDIDATES_HELP)
    ] = CANDIDATES,
    grammar: Annotated[Path | None, typer.Option(metavar="PATH", help=GRAMMAR_HELP)] = None,
    against: Annotated[list[Path] | None, typer.Option(metavar="DIR", help=AGAINST_HELP)] = None,
    model_written: Annotated[Path | None, typer.Option(metavar="FILE", help=WRITTEN_HELP)] = None,
    workers: Workers = None,
    seed: Annotated[int, typer.Option(parser=read_seed, metavar="SEED", help=SEED_0_HELP)] = ROOT,
    resume: Annotated[bool, typer.Option("--resume", help=RESUME_HELP)] = False,
    freeze: Annotated[Path | None, typer.Option(metavar="FILE", help=FREEZE_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> None:
    """Make the training tasks: drawn, filtered, without duplicates and benchmark tasks."""

    def begin() -> ExitCode:
        wish = Wish(
            out=out,
            candidates=candidates,
            tasks=tasks,
            root=seed,
            grammar=grammar,
            against=tuple(against or ()),
            written=model_written,
            workers=choose_workers(workers),
            goes_on=resume,
            allow_unsandboxed=allow_unsandboxed,
        )
        return _build(wish, freeze=freeze, as_json=as_json)

    guard(begin)()


def _build(wish: Wish, *, freeze: Path | None, as_json: bool) -> ExitCode:
    rate = Rate(clock=SystemClock(), noun="candidates")

    def step(step: Step) -> None:
        rate.show(step.done, total=step.total, rest=f"; {step.passed} passed")

    try:
        built = build(wish, Listener(step=step, tell=lambda text: say(f"note: {clean(text)}")))
    except BaseException as error:
        # What is refused as it begins has its own hint, and looked at nothing.
        if not isinstance(error, UsageError) and any(wish.out.glob(f"{JOURNAL}*")):
            kept = f"what was looked at is kept in `{wish.out}`: `--resume` goes on with it"
            error.add_note(kept)
        raise
    if freeze is not None:
        with writing(freeze):
            freeze.write_bytes(write_frozen(built.frozen))
    if as_json:
        show_json(
            {
                "folder": str(wish.out),
                "root_sha256": built.root_sha256,
                "reproduced": None if built.difference is None else not built.difference,
                "difference": built.difference or None,
                "stats": built.stats,
            }
        )
    else:
        show("\n".join(_write(built, wish.out)))
    return ExitCode.NOT_RIGHT if built.difference else ExitCode.RIGHT


def _write(built: Built, out: Path) -> list[str]:
    stats = built.stats
    splits = ", ".join(f"{count:,} {name}" for name, count in stats.by_split.items())
    lines = [
        f"tasks     {stats.tasks:,} of {count_of(stats.graphs, 'graph')}: {splits}",
        f"bounds    {', '.join(f'{n:,} {name}' for name, n in stats.by_bound.items())}",
    ]
    lines += [f"rejected  {turned.count:6,}  {turned.reason.value}" for turned in stats.rejected]
    lines += [
        f"root      {built.root_sha256}",
        f"written   {out / CARD}, {out / PAGE}",
    ]
    match built.difference:
        case None:
            lines.append("frozen    not compared: the frozen list is of another build")
        case "":
            lines.append("frozen    the same, byte for byte")
        case text:
            lines.append(f"frozen    DIFFERS: {text}")
    return lines
