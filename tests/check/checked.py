"""Kernel bodies as text, checked."""

import textwrap
from collections.abc import Mapping
from types import MappingProxyType

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.source import check_source
from nki_agent.chip.spec import Target

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
"""
FIRST_LINE = HEAD.count("\n") + 1
"""The line of the first line of a body."""


def check_file(
    source: str,
    helpers: Mapping[str, str] = MappingProxyType({}),
    *,
    target: Target = Target.TRN2,
    entry: str | None = None,
) -> list[Diagnostic]:
    """Findings for a whole file; `helpers` are modules beside it by name."""
    files = {f"{name}.py": textwrap.dedent(text) for name, text in helpers.items()}
    files["kernel.py"] = textwrap.dedent(source)
    return check_source(files, "kernel.py", target=target, entry=entry)


def check_body(body: str, *, target: Target = Target.TRN2) -> list[Diagnostic]:
    """Findings for the body of a kernel."""
    text = HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return check_file(text, target=target)


def check_module(code: str, helpers: Mapping[str, str] = MappingProxyType({})) -> list[Diagnostic]:
    """Findings for module-level code in front of a good kernel."""
    return check_file(textwrap.dedent(code) + HEAD + "    return x\n", helpers)


def codes(findings: list[Diagnostic]) -> list[str]:
    """Their codes, in order."""
    return [f.code for f in findings]
