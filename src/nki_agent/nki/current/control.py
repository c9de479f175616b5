"""Registers, run-time loops and scopes of the current dialect.

Laws: a loop's body is traced once; it returns nothing (`fori_loop`) or the next condition
(`while_loop`); tensors made in it end with it. Loops do not lie inside `no_reorder`.
Source: nki.language.fori_loop, while_loop, dynamic_range, no_reorder (0.6.0).
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nki_agent.nki.current.allocation import ISA, public
from nki_agent.nki.current.recorder import Recorder, fail, require_recorder
from nki_agent.nki.current.register import VirtualRegister
from nki_agent.program.records import Loop, LoopKind, Scope, ScopeKind

Bound = int | VirtualRegister


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A new register, moved to `x` where it is given."""
    recorder = require_recorder("nisa.register_alloc")
    register = VirtualRegister(recorder.add_register("register"))
    if x is not None:
        ISA["register_move"](dst=register, src=x)
    return register


def _bound(value: object, what: str) -> tuple[int, int | None]:
    """(number, register) of a loop bound."""
    if isinstance(value, VirtualRegister):
        return 0, value.number
    try:
        return operator.index(value), None  # type: ignore[arg-type]
    except TypeError:
        fail("NK308", what, got=type(value).__name__, limit="an int or a register")


def _require_loop(what: str) -> Recorder:
    recorder = require_recorder(what)
    if recorder.no_reorder:
        fail(
            "NK401",
            f"`{what}` inside `nl.no_reorder`",
            hint="put the `no_reorder` block inside the loop body",
        )
    return recorder


@contextmanager
def _fori(lower: object, upper: object, step: object, what: str) -> Iterator[VirtualRegister]:
    recorder = _require_loop(what)
    stride = step if isinstance(step, int) and not isinstance(step, bool) else 0
    if stride < 1:
        limit = "a positive int that is known while tracing"
        fail("NK308", f"`step` of `{what}`", got=str(step)[:40], limit=limit)
    low, low_register = _bound(lower, f"`lower` of `{what}`")
    high, high_register = _bound(upper, f"`upper` of `{what}`")
    index = VirtualRegister(recorder.add_register("loop"), is_frozen=True)
    stack = recorder.stack_id(sys._getframe(3))
    number = recorder.open_loop()
    yield index
    body = recorder.close_loop()
    recorder.body.append(
        Loop(
            LoopKind.FORI,
            number,
            index.number,
            low,
            high,
            stride,
            body,
            stack,
            lower_register=low_register,
            upper_register=high_register,
        )
    )


@public
def fori_loop(
    lower: Bound, upper: Bound, body_fun: Callable[[VirtualRegister], object], step: int = 1
) -> None:
    """A loop on the device: `body_fun(i)` is traced once with a register."""
    with _fori(lower, upper, step, "nl.fori_loop") as index:
        returned = body_fun(index)
        if returned is not None:
            got = type(returned).__name__
            fail("NK308", "result of a `fori_loop` body", got=got, limit="None")


@public
def dynamic_range(
    start: Bound, stop: Bound | None = None, step: int = 1
) -> Iterator[VirtualRegister]:
    """The deprecated form of `fori_loop`: a `for` statement whose body is traced once."""
    lower, upper = (0, start) if stop is None else (start, stop)
    with _fori(lower, upper, step, "nl.dynamic_range") as index:
        yield index


@public
def while_loop(init: object, body_fun: Callable[[VirtualRegister], object]) -> None:
    """A loop on the device while a register is not 0; the body returns the next condition."""
    recorder = _require_loop("nl.while_loop")
    if not isinstance(init, VirtualRegister):  # kernels pass anything
        fail("NK308", "`init` of `nl.while_loop`", got=type(init).__name__, limit="a register")
    index = VirtualRegister(recorder.add_register("condition"))
    stack = recorder.stack_id(sys._getframe(1))
    number = recorder.open_loop()
    returned = body_fun(index)
    if not isinstance(returned, VirtualRegister):
        got = type(returned).__name__
        fail("NK308", "result of a `while_loop` body", got=got, limit="the next condition register")
    body = recorder.close_loop()
    recorder.body.append(
        Loop(
            LoopKind.WHILE,
            number,
            index.number,
            0,
            None,
            1,
            body,
            stack,
            test=init.number,
            next=returned.number,
        )
    )


@public
@contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions inside keep their program order."""
    recorder = require_recorder("nl.no_reorder")
    outer = recorder.no_reorder
    recorder.no_reorder = True
    recorder.open_body()
    yield
    body = recorder.close_body()
    recorder.body.append(Scope(ScopeKind.NO_REORDER, 1, body))
    recorder.no_reorder = outer
