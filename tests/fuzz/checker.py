"""Hostile kernel source: the checker, its fixes, and the verdict behind them.

Law: any text gives findings; `--fix` leaves what parses parsing, what has no error without one, and
does nothing the second time; a verdict is given for every text.
"""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec
import numpy as np

from nki_agent.base.catalogue import CATALOGUE
from nki_agent.base.diagnostic import Diagnostic, Severity
from nki_agent.check.fixing import fix_source
from nki_agent.check.parsed import SourceError, parse_file
from nki_agent.check.source import check_source
from nki_agent.sandbox.outcome import Limits
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import MAIN_NAME, Kernel
from tests.fuzz.corpus import TARGET, sources
from tests.fuzz.text import TextMutator
from tests.judging import load_softmax

LIMITS = Limits(seconds=4.0, cpu_seconds=1, memory_bytes=1 << 30)


@functools.cache
def texts() -> tuple[str, ...]:
    """What is mutated."""
    return tuple(sources().values())


def parses(text: str) -> bool:
    """Whether the checker can read it."""
    try:
        parse_file(MAIN_NAME, text, module_name="")
    except SourceError:
        return False
    return True


def errors(findings: list[Diagnostic] | tuple[Diagnostic, ...]) -> list[str]:
    """Those that fail a kernel."""
    return [str(f) for f in findings if f.severity is Severity.ERROR]


def try_text(text: str) -> str:
    """Check and fix a text."""
    findings = check_source({MAIN_NAME: text}, MAIN_NAME, target=TARGET)
    assert all(f.code in CATALOGUE and f.where for f in findings)
    assert all(line.isprintable() for f in findings for line in str(f).split("\n"))
    msgspec.json.encode(findings)
    fixed = fix_source({MAIN_NAME: text}, MAIN_NAME, target=TARGET)
    if not parses(text):
        assert fixed.text == text
        return "no source"
    assert parses(fixed.text)
    if not errors(findings):
        assert errors(fixed.findings) == []
    again = fix_source({MAIN_NAME: fixed.text}, MAIN_NAME, target=TARGET)
    assert again.text == fixed.text
    return "fixed" if fixed.text != text else "errors" if errors(findings) else "clean"


def try_case(rng: np.random.Generator) -> str:
    """One mutated kernel through the checker."""
    mutator = TextMutator(rng, texts())
    text = mutator.mutate(mutator.pick(texts()))
    try:
        return try_text(text)
    except BaseException as error:
        error.add_note(ascii(text))
        raise


class VerdictFuzz:
    """Mutated kernels, traced in the sandbox and judged."""

    def __init__(self, folder: Path) -> None:
        """Judge row softmax on trn2."""
        self.task: Task = load_softmax(folder)
        self.judge = Judge(target=TARGET, limits=LIMITS)

    def close(self) -> None:
        """End the tracing process."""
        self.judge.close()

    def try_case(self, rng: np.random.Generator) -> str:
        """One mutated kernel's stage."""
        mutator = TextMutator(rng, texts())
        text = mutator.mutate(mutator.pick(texts()))
        try:
            kernel = Kernel.from_text(text)
            verdict = self.judge.judge(kernel, self.task, root_seed=3)
            assert len(msgspec.json.encode(verdict)) < 100_000
            assert verdict.right or errors(verdict.diagnostics)
        except BaseException as error:
            error.add_note(ascii(text))
            raise
        return verdict.stage.value
