"""`nki-agent resume RUN`: a run of `solve` goes on where it stopped; no turn is paid twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from nki_agent.agent.folder import RunFolder
from nki_agent.agent.past import STOPPED, find_end, hold
from nki_agent.base.clock import SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import JSON_HELP, read_text
from nki_agent.cli.screen import say
from nki_agent.cli.solve import conclude
from nki_agent.cli.solving import SCHEMA, Showing, SolveConfig, carry_out
from nki_agent.cli.spending import (
    BudgetDollars,
    BudgetTokens,
    GpuHour,
    Prices,
    Spending,
    TaskDollars,
    make_tariff,
    require_price,
)
from nki_agent.evals.spent import read_spent
from nki_agent.llm.choose import ModelSource
from nki_agent.llm.meter import Purse
from nki_agent.report.stored import read_whole_events


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run of `solve`.")],
    *,
    prices: Prices = None,
    gpu_hour: GpuHour = None,
    budget_dollars: BudgetDollars = None,
    budget_tokens: BudgetTokens = None,
    task_dollars: TaskDollars = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> ExitCode:
    """Go on with a run where it stopped. Budgets count what it has spent before."""
    spending = Spending(
        budget_dollars=budget_dollars, budget_tokens=budget_tokens, task_dollars=task_dollars
    )
    config = read_solve_config(run)
    tariff = config.tariff
    if prices is not None or gpu_hour is not None:
        tariff = make_tariff(config.model, prices=prices, gpu_hour=gpu_hour)
    limits = config.limits
    if task_dollars is not None:
        limits = msgspec.structs.replace(limits, usd=task_dollars)
    budget = spending.make_budget(config.budget)
    if budget.usd is not None or limits.usd is not None:
        require_price(tariff, config.model)
    config = msgspec.structs.replace(config, tariff=tariff, limits=limits, budget=budget)
    folder = RunFolder(run)
    with hold(run):
        trajectories = [folder.sample_trajectory(n) for n in range(config.samples)]
        for path in filter(Path.exists, trajectories):
            read_whole_events(path, run)  # a broken one is named here
        require_stopped(run, trajectories)
        usd, tokens = read_spent(trajectories, warn=say)
        say(f"going on after {tokens} tokens")
        clock, purse = SystemClock(), Purse(budget, usd=usd, tokens=tokens)
        task = find_task(config, folder)
        with ModelSource(config.model, tariff=tariff, purse=purse, clock=clock) as models:
            how = Showing(models=models, clock=clock)
            episodes, summary = carry_out(task, config, folder, how)
    return conclude(episodes, folder, config, summary=summary, as_json=as_json)


def read_solve_config(run: Path) -> SolveConfig:
    """The config of a run of `solve`.

    Raises:
        UsageError: the folder has none, or of another schema.
    """
    path = RunFolder(run).config
    try:
        config = msgspec.json.decode(path.read_bytes(), type=SolveConfig)
    except OSError as error:
        raise UsageError(
            f"`{run}` is no run: {path.name}: {error.strerror}",
            hint="name the folder that `nki-agent solve` made",
        ) from error
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"`{run}` is no run of `solve`: {error}",
            hint="a run of the benchmark goes on with `nki-agent bench run --resume RUN`",
        ) from error
    if config.schema != SCHEMA:
        raise UsageError(f"`{path}` has schema {config.schema}, and this version reads {SCHEMA}")
    return config


def require_stopped(run: Path, trajectories: Sequence[Path]) -> None:
    """Refuse a run of which every sample has ended for good."""
    ends = [end for path in trajectories if (end := find_end(path)) and end.end not in STOPPED]
    if len(ends) == len(trajectories):
        how = ", ".join(end.end.value.replace("_", " ") for end in ends)
        raise UsageError(f"`{run}` has ended: {how}", hint="start a new run")


def find_task(config: SolveConfig, folder: RunFolder) -> Path:
    """The task file where it was, if it is as it was.

    Raises:
        UsageError: it is gone or was changed; the run's folder holds its text.
    """
    path = Path(config.task)
    if short_hash(hash_text(read_text(path, what="task"))) != config.task_source:
        raise UsageError(
            f"the task `{path}` is not as it was when the run began",
            hint=f"`{folder.task}` holds its text; put it back to go on",
        )
    return path


app = make_app(resume)
