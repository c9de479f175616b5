"""Worked patterns: bodies of small kernels that are right, by the codes that they answer.

Law: the texts are in `patterns/`; every limit in them comes from `chip`, and a test judges each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType

_FORM = re.compile(
    r"# (?P<title>[^\n]+)\n\n- codes: (?P<codes>[^\n]+)\n- inputs: (?P<inputs>[^\n]+)\n"
    r"- computes: (?P<computes>[^\n]+)\n\n```python\n(?P<body>.*)```\n",
    re.DOTALL,
)
_INPUT = re.compile(r"(\w+) \w+\[[\d, ]+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One pattern: what it shows, for which codes, and the body of its kernel."""

    name: str
    title: str
    codes: tuple[str, ...]
    inputs: str
    """`x float32[300, 64], …`: what the body was tried with."""
    computes: str
    body: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the kernel's arguments."""
        return tuple(_INPUT.findall(self.inputs))

    def __str__(self) -> str:
        """For a model to read."""
        head = f"Worked pattern: {self.title} (`kernel({', '.join(self.arguments)})`, body)"
        return f"{head}\n```python\n{self.body}```"


@cache
def make_patterns(target: Target) -> tuple[Pattern, ...]:
    """Every pattern with the limits of one target."""
    chip = load_chip(target)
    limits = {
        "partitions": chip.partitions,
        "stationary_max": chip.matmul_stationary_free_max,
        "bank_columns": chip.psum_bank_bytes // DType.FLOAT32.itemsize,
    }
    folder = files("nki_agent.agent").joinpath("patterns")
    found = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        form = _FORM.fullmatch(path.read_text(encoding="utf-8"))
        assert form, path.name
        title, body = (Template(form[part]).substitute(limits) for part in ("title", "body"))
        found.append(
            Pattern(
                name=path.name.removesuffix(".md"),
                title=title,
                codes=tuple(form["codes"].split(", ")),
                inputs=form["inputs"],
                computes=form["computes"],
                body=body,
            )
        )
    return tuple(found)


def find_pattern(code: str, *, target: Target) -> Pattern | None:
    """The pattern that answers a diagnostic of this code."""
    return next((p for p in make_patterns(target) if code in p.codes), None)
