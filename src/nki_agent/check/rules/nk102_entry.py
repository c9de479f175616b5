"""NK102: the kernel file has one entry.

Law: it is the jit function of the name that is asked for; if none is, the one named `kernel`, or
the only one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.parsed import at
from nki_agent.check.project import Project

DEFAULT_NAME = "kernel"


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding where the entry is missing or not clear."""
    kernels, wanted = project.kernels, project.entry or DEFAULT_NAME
    if any(unit.name == wanted for unit in kernels):
        return
    if project.entry is None and len(kernels) == 1:
        return
    module = project.main.module
    unit = project.main.units.get(wanted) or (kernels[-1] if kernels else module)
    place = unit.definition or module.all(ast.Module)[0]
    hint = f"name the entry `{wanted}`"
    if not kernels or unit.name == wanted:
        hint = f"decorate the entry: `@nki.jit` above `def {wanted}(...)`"
    yield at(
        module,
        place,
        Diagnostic(
            code="NK102",
            what="entry of the kernel file",
            got=", ".join(f"`{u.name}`" for u in kernels) or "no `@nki.jit` function",
            limit=f"one `@nki.jit` function, or one named `{wanted}`",
            hint=hint,
        ),
    )
