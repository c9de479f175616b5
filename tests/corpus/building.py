"""Builds a corpus of a few tasks from a small grammar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nki_agent.corpus.build import Built, Listener, Step, Wish, build

GRAMMAR = Path(__file__).parent / "small_grammar.toml"
WISH = Wish(out=Path(), candidates=18, tasks=60, grammar=GRAMMAR)


def build_small(
    out: Path, *, step: Callable[[Step], None] = lambda _: None, wish: Wish = WISH
) -> Built:
    """Build it there."""
    told: list[str] = []
    return build(replace(wish, out=out), Listener(step=step, tell=told.append))


def read_all(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
