"""Options that several commands share, which a command gets as one argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

Result = TypeVar("Result")


def takes_options(
    name: str, group: type[Any], options: Mapping[str, Any]
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Give a command the options of a group: a dataclass with a default for each."""
    defaults = {field.name: field.default for field in fields(group)}
    more = [
        inspect.Parameter(
            option, inspect.Parameter.KEYWORD_ONLY, default=defaults[option], annotation=kind
        )
        for option, kind in options.items()
    ]

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        signature = inspect.signature(function, eval_str=True)

        @functools.wraps(function)
        def command(**given: Any) -> Result:
            value = group(**{option: given.pop(option) for option in options})
            return function(**given, **{name: value})

        own = [p for p in signature.parameters.values() if p.name != name]
        shown = signature.replace(parameters=[*own, *more])
        # What Typer reads.
        command.__signature__ = shown  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in shown.parameters.values()}
        return command

    return decorate
