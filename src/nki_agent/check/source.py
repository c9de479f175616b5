"""What is wrong with a kernel's source, found without running it.

Law: every finding that is an error is something the compiler, the tracer or the judge refuses; what
is not certain is a warning. The files are untrusted text: any text gives findings, never an
exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.project import Project, parse_project
from nki_agent.check.rules import (
    nk102_entry,
    nk103_language,
    nk104_names,
    nk105_calls,
    nk106_habits,
    nk107_imports,
    nk108_identity,
    nk113_globals,
    nk115_operators,
    nk116_launch,
    nk118_deprecated,
    nk119_surface,
    nk308_constants,
    nk903_tampering,
)
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target

FINDINGS_MAX = 50
"""Findings that are kept; more help nobody."""

Rule = Callable[[Project], Iterator[Diagnostic]]
RULES: tuple[Rule, ...] = (
    nk903_tampering.check,
    nk102_entry.check,
    nk107_imports.check,
    nk103_language.check,
    nk104_names.check,
    nk105_calls.check,
    nk106_habits.check,
    nk115_operators.check,
    nk116_launch.check,
    nk308_constants.check,
    nk118_deprecated.check,
    nk108_identity.check,
    nk113_globals.check,
)


def check_source(
    files: Mapping[str, str],
    main: str,
    *,
    target: Target,
    entry: str | None = None,
    surface: Surface = Surface.NKI,
) -> list[Diagnostic]:
    """The first findings for the kernel file `main` and the helper modules beside it.

    `files` maps paths to text; KeyError if `main` is not among them. `entry` is the name of the jit
    function to run, where the caller has one in mind.
    """
    return find_all(files, main, target=target, entry=entry, surface=surface)[:FINDINGS_MAX]


def find_all(
    files: Mapping[str, str],
    main: str,
    *,
    target: Target,
    entry: str | None = None,
    surface: Surface = Surface.NKI,
) -> list[Diagnostic]:
    """Every finding, by file and line."""
    project, findings = parse_project(files, main, target=target, entry=entry)
    if project is not None:
        for rule in RULES:
            findings.extend(rule(project))
        if surface is Surface.ISA:
            findings.extend(nk119_surface.check(project))
    seen: set[tuple[str, str, str]] = set()
    kept = []
    for finding in sorted(findings, key=lambda f: _place(f, main)):
        key = (finding.code, str(finding.where[-1]), finding.what)
        if key not in seen:
            seen.add(key)
            kept.append(finding)
    return kept


def _place(finding: Diagnostic, main: str) -> tuple[bool, str, int]:
    frame = finding.where[-1]
    return frame.file != main, frame.file, frame.line
