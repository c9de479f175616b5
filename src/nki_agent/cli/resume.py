"""`nki-agent resume RUN`: a run goes on where it stopped; no turn is paid twice.

Law: what a run was asked to do is in its folder, and only its prices, limits and budgets can be
said anew. A run of `fix` or `optimize` begins again from the user's kernel as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from nki_agent.agent.folder import RunFolder
from nki_agent.agent.past import STOPPED, find_end, hold
from nki_agent.base.clock import SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.fix import carry_out as carry_out_improving
from nki_agent.cli.improving import ImproveConfig, Wish
from nki_agent.cli.inputs import CONVERSATION_HELP, JSON_HELP, read_task, read_text
from nki_agent.cli.screen import say
from nki_agent.cli.solve import conclude
from nki_agent.cli.solving import SCHEMA, Showing, SolveConfig, carry_out, keeping_errors
from nki_agent.cli.spending import (
    BudgetDollars,
    BudgetTokens,
    GpuHour,
    Prices,
    Spending,
    TaskDollars,
    TaskTokensAgain,
    make_tariff,
    require_price,
)
from nki_agent.evals.spent import read_spent
from nki_agent.llm.choose import ModelSource
from nki_agent.llm.meter import Purse
from nki_agent.report.stored import read_whole_events
from nki_agent.verify.kernel import Kernel

RUN_HELP = "The folder of a run of `solve`, `fix` or `optimize`."
Config = SolveConfig | ImproveConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a command says beside the run."""

    spending: Spending
    task_tokens: int | None
    as_json: bool
    shows_all: bool


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN", help=RUN_HELP)],
    *,
    prices: Prices = None,
    gpu_hour: GpuHour = None,
    budget_dollars: BudgetDollars = None,
    budget_tokens: BudgetTokens = None,
    task_dollars: TaskDollars = None,
    task_tokens: TaskTokensAgain = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    conversation: Annotated[bool, typer.Option("--conversation", help=CONVERSATION_HELP)] = False,
) -> ExitCode:
    """Go on with a run where it stopped. Budgets count what it has spent before."""
    spending = Spending(
        prices=prices,
        gpu_hour=gpu_hour,
        budget_dollars=budget_dollars,
        budget_tokens=budget_tokens,
        task_dollars=task_dollars,
    )
    asked = Asked(
        spending=spending, task_tokens=task_tokens, as_json=as_json, shows_all=conversation
    )
    config = _spend(read_run_config(run), asked)
    with hold(run):
        return _go_on(run, config, asked)


def read_run_config(run: Path) -> Config:
    """The config of a run that can go on.

    Raises:
        UsageError: the folder has none, or of another schema.
    """
    path = RunFolder(run).config
    try:
        plain: Any = msgspec.json.decode(path.read_bytes())
        config: Config
        if isinstance(plain, dict) and "goal" in plain:
            config = msgspec.convert(plain, ImproveConfig)
        else:
            config = msgspec.convert(plain, SolveConfig)
    except OSError as error:
        raise UsageError(
            f"`{run}` is no run: {path.name}: {error.strerror}",
            hint="name the folder that `nki-agent solve`, `fix` or `optimize` made",
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"`{run}` is no run of `solve`, `fix` or `optimize`: {error}",
            hint="a run of the benchmark goes on with `nki-agent bench run --resume RUN`",
        ) from error
    if config.schema != SCHEMA:
        raise UsageError(f"`{path}` has schema {config.schema}, and this version reads {SCHEMA}")
    return config


def _spend(config: Config, asked: Asked) -> Config:
    """The same run with the prices, limits and budgets that are said anew."""
    spending, tariff = asked.spending, config.tariff
    if spending.prices is not None or spending.gpu_hour is not None:
        tariff = make_tariff(config.model, prices=spending.prices, gpu_hour=spending.gpu_hour)
    limits = config.limits
    if spending.task_dollars is not None:
        limits = msgspec.structs.replace(limits, usd=spending.task_dollars)
    if asked.task_tokens is not None:
        limits = msgspec.structs.replace(limits, total_tokens=asked.task_tokens)
    budget = spending.make_budget(config.budget)
    if budget.usd is not None or limits.usd is not None:
        require_price(tariff, config.model)
    return msgspec.structs.replace(config, tariff=tariff, limits=limits, budget=budget)


def _go_on(run: Path, config: Config, asked: Asked) -> ExitCode:
    folder = RunFolder(run)
    samples = config.samples if isinstance(config, SolveConfig) else 1
    trajectories = [folder.sample_trajectory(n) for n in range(samples)]
    for path in filter(Path.exists, trajectories):
        read_whole_events(path, run)  # a broken one is named here
    require_stopped(run, trajectories)
    usd, tokens = read_spent(trajectories, warn=say)
    say(f"going on after {tokens} tokens")
    task = find_task(config, folder)
    purse = Purse(config.budget, usd=usd, tokens=tokens)
    clock = SystemClock()
    with ModelSource(config.model, tariff=config.tariff, purse=purse, clock=clock) as models:
        how = Showing(models=models, clock=clock, shows_all=asked.shows_all)
        if isinstance(config, ImproveConfig):
            return carry_out_improving(_make_wish(config, folder, task, how, asked))
        with keeping_errors(folder):
            episodes, summary = carry_out(task, config, folder, how)
    return conclude(episodes, folder, config, summary=summary, as_json=asked.as_json)


def _make_wish(
    config: ImproveConfig, folder: RunFolder, task: Path, how: Showing, asked: Asked
) -> Wish:
    return Wish(
        path=Path(config.kernel),
        kernel=Kernel.from_text(read_text(folder.start, what="kernel of the run")),
        config=config,
        task=read_task(
            task, untrusted=config.untrusted_task, allow_unsandboxed=config.allow_unsandboxed
        ),
        runs=folder.path.parent,
        how=how,
        as_json=asked.as_json,
        folder=folder,
    )


def require_stopped(run: Path, trajectories: Sequence[Path]) -> None:
    """Refuse a run of which every sample has ended for good."""
    ends = [end for path in trajectories if (end := find_end(path)) and end.end not in STOPPED]
    if len(ends) == len(trajectories):
        how = ", ".join(end.end.value.replace("_", " ") for end in ends)
        raise UsageError(f"`{run}` has ended: {how}", hint="start a new run")


def find_task(config: Config, folder: RunFolder) -> Path:
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
