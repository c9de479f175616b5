"""KernelBench: folders of problem files, each a `Model` with `get_inputs` and `get_init_inputs`.

Law: the file is the task, since its form is one of ours; only sizes change.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from nki_agent.bench.importers.draft import Draft, make_slug
from nki_agent.bench.importers.fitting import is_python
from nki_agent.bench.importers.listing import Listing
from nki_agent.bench.importers.sizes import Template, read_template

_LEVEL: Final = re.compile(r"level_?(\d{1,2})")
_MODEL: Final = re.compile(r"^class\s+Model\b", re.MULTILINE)
_INPUTS: Final = re.compile(r"^def\s+get_inputs\b", re.MULTILINE)


def count_kernelbench(listing: Listing) -> int:
    """Files that look like problems."""
    return sum(_is_problem(text) for text in listing.named(".py").values())


def read_kernelbench(listing: Listing) -> list[Draft]:
    """One draft for each problem file; in a whole repository, those of its level folders alone."""
    files = listing.named(".py")
    in_levels = {path: text for path, text in files.items() if _find_level(path)}
    chosen = in_levels or {p: t for p, t in files.items() if _looks_like(p, t)}
    return [_draft(path, text) for path, text in chosen.items()]


def _looks_like(path: str, text: str) -> bool:
    return _is_problem(text) or bool(re.match(r"\d", PurePosixPath(path).name))


def _is_problem(text: str) -> bool:
    return bool(_MODEL.search(text) and _INPUTS.search(text))


def _find_level(path: str) -> int:
    found = [_LEVEL.fullmatch(part) for part in PurePosixPath(path).parts[:-1]]
    return next((int(match[1]) for match in reversed(found) if match), 0)


def _draft(path: str, text: str) -> Draft:
    level = _find_level(path)
    stem = make_slug(PurePosixPath(path).stem)
    task_id = f"l{level}-{stem}" if level else stem
    problem = is_python(text)
    return Draft(
        id=task_id,
        origin=path,
        templates=() if problem else make_templates(text),
        level=level,
        category=f"level{level}" if level else "",
        problem=problem,
    )


def make_templates(text: str) -> tuple[Template, ...]:
    """Scale what the module states first, and numbers in the model only if that is too little."""
    return (read_template(text), read_template(text, everywhere=True))
