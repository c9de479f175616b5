"""What replies cost: a table of prices for tokens, or the price of an hour on one's own machine.

Law: a model without a price has no cost, which is not the same as a cost of 0. A table states its
date and source. Not covered: training, batch and long-context prices.
"""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path

import msgspec

from nki_agent.base.bounded import UnreadableError, read_text
from nki_agent.base.errors import UsageError
from nki_agent.llm.protocol import Usage

SCHEMA = 1
MILLION = 1e6
S_PER_HOUR = 3600.0
FORM = (
    "a table has `schema = 1`, `dated`, `source`, and `[[price]]` with `model`, `input`, `output`"
)


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars per million tokens of the models whose names fit."""

    model: str
    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def find_usd(self, usage: Usage) -> float:
        """What a reply costs."""
        cached = self.input if self.cached is None else self.cached
        write = self.input if self.cache_write is None else self.cache_write
        plain_tokens = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        return (
            plain_tokens * self.input
            + usage.cached_tokens * cached
            + usage.cache_write_tokens * write
            + usage.output_tokens * self.output
        ) / MILLION


class PriceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dated list of prices; the first whose pattern fits holds."""

    schema: int
    dated: str
    source: str
    price: tuple[Price, ...] = ()

    def find(self, model: str) -> Price | None:
        """The price of a model; None where the table has none."""
        return next((p for p in self.price if fnmatchcase(model, p.model)), None)


FREE = Price(model="*", input=0.0, output=0.0)


class Tariff(msgspec.Struct, frozen=True, kw_only=True):
    """How the replies of one model are charged; written beside the results."""

    price: Price | None = None
    usd_per_hour: float | None = None
    """For one's own machine, while it works on replies; counts in place of a price for tokens."""
    source: str = ""

    @property
    def is_known(self) -> bool:
        """Whether a reply's cost can be told."""
        return self.price is not None or self.usd_per_hour is not None

    def find_usd(self, usage: Usage, *, busy_s: float) -> float | None:
        """What a reply costs that kept the machine busy for so long."""
        if self.usd_per_hour is not None:
            return self.usd_per_hour * busy_s / S_PER_HOUR
        return None if self.price is None else self.price.find_usd(usage)


def read_prices(path: Path | None = None) -> PriceTable:
    """The table at `path`, or the one that comes with this version.

    Raises:
        UsageError: it cannot be read or is no table of prices.
    """
    try:
        if path is None:
            text = resources.files("nki_agent.llm").joinpath("prices.toml").read_text("utf-8")
        else:
            text = read_text(path)
        table = msgspec.convert(tomllib.loads(text), PriceTable)
    except UnreadableError as error:
        raise UsageError(f"cannot read the prices `{path}`: it {error}") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"`{path}` is no table of prices: {error}", hint=FORM) from error
    except RecursionError as error:
        raise UsageError(f"`{path}` is no table of prices: too deeply nested", hint=FORM) from error
    if table.schema != SCHEMA:
        raise UsageError(f"`{path}` has schema {table.schema}, not {SCHEMA}", hint=FORM)
    for price in table.price:
        given = (price.input, price.output, price.cached or 0.0, price.cache_write or 0.0)
        if not all(0.0 <= usd < float("inf") for usd in given):
            raise UsageError(f"`{path}`: a price of `{price.model}` is below 0 or no number")
    return table


def add_usd(first: float | None, second: float | None) -> float | None:
    """The sum; unknown where a part is."""
    return None if first is None or second is None else first + second
