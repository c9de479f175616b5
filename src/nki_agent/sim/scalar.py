"""The Scalar Engine's activation instructions.

Law: `f(data * scale + bias)` in float32, one rounding at the destination. The reduction takes the
float32 results from the first to the last and works on `reduce_regs`, one float32 for each lane,
which all three instructions share; a reset gives them the identity of the reduction.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.isa.enums import Engine, ReduceCommand
from nki_agent.isa.ops import ACTIVATIONS
from nki_agent.sim.activations import FUNCTIONS, PARAMETRIC
from nki_agent.sim.axes import Shape
from nki_agent.sim.plan import Arg, Array, Hole, refuse
from nki_agent.sim.reduction import accumulate, fold
from nki_agent.sim.site import Site
from nki_agent.sim.vector import apply_scalar

ADD = "add"
BYPASS = "bypass"
PARAMETER = "relu_param"
TWO_AXES = 2


def activation(site: Site) -> None:
    """`op(data * scale + bias)`; `reduce_cmd` says what becomes of the registers."""
    _activate(site, _scale, ReduceCommand(site.name("reduce_cmd")))


def activation_reduce(site: Site) -> None:
    """An activation that resets the registers, adds its results up in them and reads them out."""
    _activate(site, _scale, ReduceCommand.RESET_REDUCE)


def activate2(site: Site) -> None:
    """`op((data op0 imm0) op1 imm1)`, with more ways to reduce."""
    _activate(site, _combine, ReduceCommand(site.name("reduce_cmd")))


def _activate(site: Site, prepare: Callable[[Site, Shape], Arg], command: ReduceCommand) -> None:
    shape = site.tile_shape("dst", "data")
    reduces = command in (ReduceCommand.REDUCE, ReduceCommand.RESET_REDUCE)
    needs_copy = reduces and len(shape) > TWO_AXES
    result = site.scratch(shape) if needs_copy else site.target("dst", shape)
    _apply(site, prepare(site, shape), shape, result)
    lanes = None
    if command is not ReduceCommand.IDLE or site.has_tensor("reduce_res"):
        op = site.name("reduce_op") or ADD
        lanes = site.lanes(Engine.SCALAR, "data")
        total = site.scratch(shape[:1])
        if reduces:
            rows = result if isinstance(result, Hole) else result.reshape(shape[0], -1)
            total = fold(site, op, rows, shape[:1], math.prod(shape[1:]))
        accumulate(site, lanes, total, op=op, command=command)
    site.store("dst", result, shape)
    if lanes is not None and site.has_tensor("reduce_res"):
        column = site.scratch((shape[0], 1))
        site.copy(column.reshape(-1), lanes)
        site.store("reduce_res", column, column.shape)


def _apply(site: Site, value: Arg, shape: Shape, out: Arg) -> None:
    op = site.name("op")
    if op in PARAMETRIC:
        if not (site.has_tensor(PARAMETER) or site.has_number(PARAMETER)):
            refuse(f"`nl.{op}` in `{site.call.declaration.name}`, which has no `{PARAMETER}`,")
        site.step(PARAMETRIC[op], value, site.read_column(PARAMETER, len(shape)), out)
        return
    limits = ACTIVATIONS[op]
    if limits.low > -math.inf or limits.high < math.inf:
        site.check(_check_range, op, value)
    function = FUNCTIONS[op]
    if function.work:
        work = tuple(site.scratch(shape) for _ in range(function.work))
        site.step(function.apply, value, out, work)
    else:
        site.step(function.apply, value, out)


def _scale(site: Site, shape: Shape) -> Arg:
    """Add `data * scale + bias`; a step that would change nothing is left out."""
    value = site.read("data", shape)
    for role, ufunc, neutral in (("scale", np.multiply, 1), ("bias", np.add, 0)):
        is_present = site.has_tensor(role) or site.has_number(role)
        if is_present and not site.is_number(role, neutral):
            column = site.read_column(role, len(shape))
            out = site.scratch(shape)
            site.step(ufunc, value, column, out)
            value = out
    return value


def _combine(site: Site, shape: Shape) -> Arg:
    """Add `(data op0 imm0) op1 imm1`; a bypass takes no step."""
    value = site.read("data", shape)
    for which in (0, 1):
        if site.name(f"op{which}") not in ("", BYPASS):
            out = site.scratch(shape)
            apply_scalar(site, which, value, out, shape=shape, elems=out.size)
            value = out
    return value


def _check_range(op: str, values: Array) -> Diagnostic | None:
    limits = ACTIVATIONS[op]
    low, high = float(np.fmin.reduce(values, None)), float(np.fmax.reduce(values, None))
    is_good = low >= float(np.float32(limits.low)) and high <= float(np.float32(limits.high))
    if op == "sqrt" and low == 0:
        is_good = high <= limits.high
    if limits.low_magnitude:
        is_good = is_good and float(np.fmin.reduce(np.abs(values), None)) >= limits.low_magnitude
    if is_good or math.isnan(low):
        return None
    bounds = f"{limits.low:.6g} to {limits.high:.6g}"
    if limits.low_magnitude:
        bounds += f", at least {limits.low_magnitude:.6g} from zero"
    return Diagnostic(
        code="NK503",
        severity=Severity.WARNING,
        what=f"input of `nl.{op}` on the Scalar Engine",
        got=f"{low:.6g} to {high:.6g}",
        limit=bounds,
        hint="clamp or rescale the input, or compute it on the Vector Engine",
    )
