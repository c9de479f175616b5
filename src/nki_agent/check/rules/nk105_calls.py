"""NK105: direct calls of `nisa`, `nl` and `nki` functions fit their signatures.

Law: a call whose arguments are spread from `*` or `**` is only checked for what can be seen. A call
in the older form is left to `nk106_habits`. A wrong keyword carries an edit where the right one is
clear: the only one that is missing, or one that is much nearer than any other.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic, Edit
from nki_agent.check.api import nearest, show_signature, suggest
from nki_agent.check.call import Call, calls_of
from nki_agent.check.editing import replace, start_of
from nki_agent.check.meant import KEYWORDS
from nki_agent.check.project import Project
from nki_agent.check.rules.nk106_habits import has_old_form

JIT = "nki.jit"
JIT_ARGUMENTS = ("fn", "mode")
"""`mode` is accepted and ignored (release notes 0.3.0)."""
DESTINATIONS = frozenset({"out", "output", "outputs", "result", "res", "dest", "destination"})
"""What people call `dst`."""
RENAMED = {
    ("nki.isa.register_move", "imm"): "src",
    ("nki.isa.nc_matmul", "is_moving_zero"): "is_moving_onezero",
    ("nki.isa.nc_matmul", "lhsT"): "stationary",
    ("nki.isa.nc_matmul", "rhs"): "moving",
}
"""Keywords that an older NKI or common use names otherwise (migration guide 0.2.0, 0.3.0)."""


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every call that does not fit."""
    for call in calls_of(project):
        if call.api.full == JIT:
            yield from _check_jit(call)
        elif not has_old_form(call):
            yield from _check_keywords(call)
            yield from _check_counts(call)


def _check_jit(call: Call) -> Iterator[Diagnostic]:
    for keyword in call.keywords:
        if keyword not in JIT_ARGUMENTS:
            hint = "choose the chip with `--target` or NEURON_PLATFORM_TARGET_OVERRIDE"
            yield call.report(
                "NK105",
                f"`nki.jit` has no argument `{keyword}`",
                hint=hint if keyword == "platform_target" else "remove it: `@nki.jit`",
            )


def _check_keywords(call: Call) -> Iterator[Diagnostic]:
    parameters = call.signature.parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    by_position = list(parameters)[: len(call.node.args)]
    unknown = [k for k in call.node.keywords if k.arg is not None and k.arg not in parameters]
    for keyword in call.node.keywords:
        name = keyword.arg
        if keyword in unknown:
            yield _unknown_keyword(call, keyword, is_only=len(unknown) == 1)
        elif name in by_position and not call.has_spread:
            what = f"`{call.api.short}` gets `{name}` twice, by position and by name"
            yield call.report("NK105", what)


def _unknown_keyword(call: Call, keyword: ast.keyword, *, is_only: bool) -> Diagnostic:
    assert keyword.arg is not None
    parameters = call.signature.parameters
    shown = f"the signature is `{show_signature(call.api, call.signature)}`"
    right = _meant(call, keyword.arg, is_only=is_only)
    near = f"did you mean `{right}`?" if right else suggest(keyword.arg, parameters, prefix="")
    return call.report(
        "NK105",
        f"`{call.api.short}` has no argument `{keyword.arg}`",
        hint=f"{near} {shown}".strip(),
        edits=_rename(call, keyword, right),
    )


def _meant(call: Call, name: str, *, is_only: bool) -> str | None:
    """The parameter that a wrong keyword stands for, where that is clear."""
    if call.has_spread:
        return None
    parameters = list(call.signature.parameters)
    free = [p for p in parameters[len(call.node.args) :] if p not in call.keywords]
    renamed = RENAMED.get((call.api.full, name))
    if renamed is None and name.lower() in DESTINATIONS and call.missing[:1] == ["dst"]:
        renamed = "dst"
    if renamed is not None:
        return renamed if renamed in free else None
    if KEYWORDS.get(name) in free:
        return KEYWORDS[name]
    near = nearest(name, free)
    is_lone = is_only and len(call.missing) == 1
    if near is None and is_lone and suggest(name, call.missing, prefix=""):
        near = call.missing[0]
    return near


def _rename(call: Call, keyword: ast.keyword, name: str | None) -> tuple[Edit, ...]:
    if name is None or keyword.arg is None:
        return ()
    file = call.unit.file
    line, column = start_of(file, keyword)
    end = (line, column + len(keyword.arg))
    if file.lines[line - 1][column : end[1]] != keyword.arg:
        return ()
    return (replace(file, (line, column), end, name),)


def _check_counts(call: Call) -> Iterator[Diagnostic]:
    if call.has_spread:
        return
    parameters = call.signature.parameters.values()
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return
    if len(call.node.args) > len(parameters):
        what = f"`{call.api.short}` takes {len(parameters)} arguments, not {len(call.node.args)}"
        yield call.report("NK105", what)
        return
    if call.missing:
        names = ", ".join(f"`{name}`" for name in call.missing)
        yield call.report("NK105", f"`{call.api.short}` lacks {names}")
