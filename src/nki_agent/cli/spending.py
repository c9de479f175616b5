"""Options that say what a model costs and how much may be spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from nki_agent.agent.episode import Limits, Mode
from nki_agent.base.clock import Clock
from nki_agent.base.errors import UsageError
from nki_agent.check.surface import Surface
from nki_agent.cli.authoring import choose_limits
from nki_agent.cli.option_group import takes_options
from nki_agent.llm.choose import ModelSource, find_free_tariff
from nki_agent.llm.meter import Budget, Purse
from nki_agent.llm.prices import Tariff, read_prices
from nki_agent.llm.protocol import TokenLimits

Prices = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Prices by model, in place of the list that comes with us."),
]
GpuHour = Annotated[
    float | None,
    typer.Option(
        metavar="DOLLARS", min=0.0, help="Your own server: price of an hour in which it answers."
    ),
]
BudgetDollars = Annotated[
    float | None,
    typer.Option(metavar="DOLLARS", min=0.0, help="The run stops before the next reply past this."),
]
BudgetTokens = Annotated[
    int | None, typer.Option(metavar="TOKENS", min=0, help="The same in tokens, sent and written.")
]
TaskDollars = Annotated[
    float | None,
    typer.Option(metavar="DOLLARS", min=0.0, help="An episode ends before the next reply past it."),
]
TaskTokens = Annotated[
    int, typer.Option(metavar="TOKENS", min=0, help="The same in tokens, sent and written.")
]
TaskTokensAgain = Annotated[
    int | None, typer.Option(metavar="TOKENS", min=0, help="The same in tokens, sent and written.")
]
ReplyTokens = Annotated[
    int, typer.Option(metavar="TOKENS", min=1, help="Most tokens that one reply may have.")
]
DEFAULT_TASK_TOKENS = Limits().total_tokens
DEFAULT_REPLY_TOKENS = TokenLimits().output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What was asked for, before it is resolved."""

    prices: Path | None = None
    gpu_hour: float | None = None
    budget_dollars: float | None = None
    budget_tokens: int | None = None
    task_dollars: float | None = None
    task_tokens: int = DEFAULT_TASK_TOKENS
    reply_tokens: int = DEFAULT_REPLY_TOKENS

    def make_tariff(self, model: str) -> Tariff:
        """How the model's replies are charged.

        Raises:
            UsageError: there is a limit in dollars and no price, or a table cannot be read.
        """
        tariff = make_tariff(model, prices=self.prices, gpu_hour=self.gpu_hour)
        if self.budget_dollars is not None or self.task_dollars is not None:
            require_price(tariff, model)
        return tariff

    def open_models(self, model: str, *, clock: Clock) -> ModelSource:
        """What the model's name stands for, charged and bounded as asked."""
        purse = Purse(self.make_budget())
        return ModelSource(model, tariff=self.make_tariff(model), purse=purse, clock=clock)

    def make_limits(self, turns: int | None, *, mode: Mode, surface: Surface) -> Limits:
        """The limits of one episode for a task without a level."""
        return msgspec.structs.replace(
            choose_limits(turns, mode=mode, surface=surface),
            total_tokens=self.task_tokens,
            usd=self.task_dollars,
            reply=TokenLimits(output_tokens=self.reply_tokens),
        )

    def make_budget(self, begun: Budget | None = None) -> Budget:
        """The run's budget; of one that was begun, what is not said again stays."""
        budget = begun or Budget()
        if self.budget_dollars is not None:
            budget = msgspec.structs.replace(budget, usd=self.budget_dollars)
        if self.budget_tokens is not None:
            budget = msgspec.structs.replace(budget, tokens=self.budget_tokens)
        return budget


OPTIONS: dict[str, Any] = {
    "prices": Prices,
    "gpu_hour": GpuHour,
    "budget_dollars": BudgetDollars,
    "budget_tokens": BudgetTokens,
    "task_dollars": TaskDollars,
    "task_tokens": TaskTokens,
    "reply_tokens": ReplyTokens,
}


takes_spending = takes_options("spending", Spending, OPTIONS)


def make_tariff(model: str, *, prices: Path | None, gpu_hour: float | None) -> Tariff:
    """From a price by the hour, or the first price that fits the model's name."""
    if gpu_hour is not None:
        if not math.isfinite(gpu_hour):
            raise UsageError(f"`--gpu-hour {gpu_hour}` is no price", hint="dollars, such as 2.5")
        return Tariff(usd_per_hour=gpu_hour, source="--gpu-hour")
    table = read_prices(prices)
    if (price := table.find(model)) is not None:
        return Tariff(price=price, source=f"{table.source}, {table.dated}")
    return find_free_tariff(model)


def require_price(tariff: Tariff, model: str) -> None:
    """Refuse to count dollars where nobody knows what a reply costs."""
    if not tariff.is_known:
        raise UsageError(
            f"a limit in dollars needs a price, and there is none for `{model}`",
            hint="`--prices FILE`, `--gpu-hour DOLLARS`, or a limit in tokens",
        )


def write_usd(usd: float | None) -> str:
    """Dollars of a run; a cost that nobody knows is not 0."""
    return "unknown: no price for this model (`--prices FILE`)" if usd is None else f"${usd:.4f}"
