"""`nki-agent data verify DIR`: stored kernels judged again, on fresh seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base.clock import SystemClock
from nki_agent.base.counting import count_of
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import draw_root_seed
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.data_solve import Folder, Workers, choose_workers, open_tasks, say_failures
from nki_agent.cli.inputs import COUNT_MAX, JSON_HELP, UNSANDBOXED_HELP, Seed
from nki_agent.cli.rate import Rate
from nki_agent.cli.screen import say, show, show_json
from nki_agent.corpus.checking import Checked, check_solutions, sample_solutions
from nki_agent.corpus.record import CorpusTask, Solution
from nki_agent.corpus.stored import read_solutions

SAMPLE = 500
SAMPLE_HELP = "So many kernels by chance; 0 means all."


def verify(
    folder: Folder,
    *,
    sample: Annotated[int, typer.Option(min=0, max=COUNT_MAX, help=SAMPLE_HELP)] = SAMPLE,
    workers: Workers = None,
    seed: Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> None:
    """Judge stored kernels again on seeds that nobody has seen; all of them must be right."""

    def begin() -> ExitCode:
        tasks, broken = open_tasks(folder)
        known, solutions, more = _read(folder, tasks)
        root_seed = draw_root_seed() if seed is None else seed
        rate = Rate(clock=SystemClock(), noun="kernels")
        checked = check_solutions(
            sample_solutions(solutions, number=sample or len(solutions), root_seed=root_seed),
            known,
            root_seed=root_seed,
            workers=choose_workers(workers),
            watch=lambda c: rate.show(c.done, total=c.total, rest=f"; {c.right} right"),
            allow_unsandboxed=allow_unsandboxed,
        )
        return _conclude(checked, root_seed=root_seed, broken=broken + more, as_json=as_json)

    guard(begin)()


def _read(
    folder: Path, tasks: tuple[CorpusTask, ...]
) -> tuple[dict[str, CorpusTask], tuple[Solution, ...], int]:
    rows = read_solutions(folder, tasks)
    for text in rows.broken:
        say(f"broken    {clean(text)}")
    if not rows.good:
        raise UsageError(f"`{folder}` has no solution yet", hint=f"`nki-agent data solve {folder}`")
    return {task.id: task for task in tasks}, rows.good, len(rows.broken)


def _conclude(checked: Checked, *, root_seed: int, broken: int, as_json: bool) -> ExitCode:
    if as_json:
        show_json(
            {
                "kernels": checked.total,
                "right": checked.right,
                "wrong": checked.wrong,
                "failed": checked.failed,
                "seed": root_seed,
            }
        )
    else:
        show(f"right     {checked.right} of {count_of(checked.total, 'kernel')}; seed {root_seed}")
        for name, why in checked.wrong.items():
            show(f"wrong     {clean(name)}: {clean(why)}")
    say_failures(checked.failed)
    if checked.failed:
        return ExitCode.FAILURE
    if checked.wrong:
        return ExitCode.NOT_RIGHT
    return ExitCode.USAGE if broken else ExitCode.RIGHT
