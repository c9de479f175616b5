"""Worked patterns and guides: small kernels that are right, by the codes that they answer.

Law: the texts are in `patterns/`; every limit in a kernel comes from `chip`, and a test judges each
kernel. A guide is the same without a kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from textwrap import indent

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType

_FORM = re.compile(
    r"# (?P<title>[^\n]+)\n\n(?:- codes: (?P<codes>[^\n]+)\n)?(?:- inputs: (?P<inputs>[^\n]+)\n"
    r"- computes: (?P<computes>[^\n]+)\n\n)?(?P<about>.*?)(?:```python\n(?P<body>.*)```\n)?",
    re.DOTALL,
)
HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n@nki.jit\n"
_INPUT = re.compile(r"(\w+) \w+\[[\d, ]+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One pattern: what it shows, for which codes, and the body of its kernel, if it has one."""

    name: str
    title: str
    codes: tuple[str, ...]
    inputs: str
    """`x float32[300, 64], …`: what the body was tried with."""
    computes: str
    about: str
    """Sentences on it, in Markdown."""
    body: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the kernel's arguments."""
        return tuple(_INPUT.findall(self.inputs))

    @property
    def kernel(self) -> str:
        """The whole kernel file."""
        call = f"def kernel({', '.join(self.arguments)}):\n"
        return f"{HEAD}{call}{indent(self.body, '    ')}"

    def __str__(self) -> str:
        """For a model to read, in few words."""
        if not self.body:
            return f"Guide: {self.title}\n{self.about}"
        head = f"Worked pattern: {self.title} (`kernel({', '.join(self.arguments)})`, body)"
        about = f"{self.about}\n" if self.about else ""
        return f"{head}\n{about}```python\n{self.body}```"


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
        title, about, body = (
            Template(form[part] or "").substitute(limits) for part in ("title", "about", "body")
        )
        found.append(
            Pattern(
                name=path.name.removesuffix(".md"),
                title=title,
                codes=tuple(form["codes"].split(", ")) if form["codes"] else (),
                inputs=form["inputs"] or "",
                computes=form["computes"] or "",
                about=about.strip(),
                body=body,
            )
        )
    return tuple(found)


def find_pattern(code: str, *, target: Target) -> Pattern | None:
    """The pattern that answers a diagnostic of this code."""
    return next((p for p in make_patterns(target) if code in p.codes), None)
