"""Counts what replies cost, and stops before the next one when a run's budget is used up.

Law: a budget is checked before a request and never in one, so a run goes over it by no more than
the replies that are on their way. Of a machine that works on several replies at once, each is
charged its share of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from nki_agent.base.clock import Clock
from nki_agent.llm.prices import Tariff
from nki_agent.llm.protocol import (
    Message,
    Model,
    Reply,
    RunBudgetError,
    TokenLimits,
    ToolSpec,
)

NS_PER_S = 1e9


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a whole run may use up; None where nothing bounds it."""

    usd: float | None = None
    tokens: int | None = None


class Purse:
    """What a run may spend and has spent."""

    def __init__(self, budget: Budget, *, usd: float = 0.0, tokens: int = 0) -> None:
        """Begin with what an earlier part of the run has spent."""
        self.budget = budget
        self.usd = usd
        self.tokens = tokens

    def require_left(self) -> None:
        """Raise RunBudgetError where nothing is left."""
        usd, tokens = self.budget.usd, self.budget.tokens
        if usd is not None and self.usd >= usd:
            raise RunBudgetError(f"the run has spent ${self.usd:.4f}; its budget is ${usd:g}")
        if tokens is not None and self.tokens >= tokens:
            raise RunBudgetError(f"the run has used {self.tokens} tokens; its budget is {tokens}")

    def pay(self, reply: Reply) -> None:
        """Take what a reply costs."""
        self.usd += reply.usd or 0.0
        self.tokens += reply.usage.total_tokens


class SharedTime:
    """The time of one machine, split between the requests that it works on at the same time."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is asked yet."""
        self._clock = clock
        self._shares_ns: dict[object, float] = {}
        self._last_ns = 0

    def begin(self, request: object) -> None:
        """A request is sent."""
        self._split()
        self._shares_ns[request] = 0.0

    def end(self, request: object) -> float:
        """Its answer is here, or it failed: its share in s."""
        self._split()
        return self._shares_ns.pop(request) / NS_PER_S

    def _split(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._shares_ns:
            share_ns = (now_ns - self._last_ns) / len(self._shares_ns)
            for request in self._shares_ns:
                self._shares_ns[request] += share_ns
        self._last_ns = now_ns


class MeteredModel:
    """A model whose replies carry their cost and are taken from a purse."""

    def __init__(self, model: Model, *, tariff: Tariff, purse: Purse, time: SharedTime) -> None:
        """Ask `model`, and charge by `tariff`."""
        self._model = model
        self._tariff = tariff
        self._purse = purse
        self._time = time

    @property
    def name(self) -> str:
        """As the model itself."""
        return self._model.name

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        """The next turn with its cost; RunBudgetError before it where nothing is left."""
        self._purse.require_left()
        request = object()
        self._time.begin(request)
        busy_s = 0.0
        try:
            reply = await self._model.reply(messages, tools=tools, limits=limits)
        finally:
            busy_s = self._time.end(request)
        usd = self._tariff.find_usd(reply.usage, busy_s=busy_s)
        reply = msgspec.structs.replace(reply, usd=usd)
        self._purse.pay(reply)
        return reply
