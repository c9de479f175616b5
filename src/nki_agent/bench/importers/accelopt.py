"""NKIBench as AccelOpt keeps it: a NumPy `forward` with `get_inputs`, sizes at the top of the file.

Law: the file is kept and `forward` becomes the reference under our name. What the file does to
bring inputs into a kernel's own layout is not part of the task: a kernel gets the plain arrays.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from nki_agent.bench.importers.draft import Draft, make_slug
from nki_agent.bench.importers.fitting import is_python
from nki_agent.bench.importers.kernelbench import make_templates
from nki_agent.bench.importers.listing import Listing

SUMMARY: Final = "summary.json"
ALIAS: Final = "\n\nreference = forward\n"
CATEGORY: Final = "accelopt"
_FORWARD: Final = re.compile(r"^def\s+forward\b", re.MULTILINE)
_INPUTS: Final = re.compile(r"^def\s+get_inputs\b", re.MULTILINE)
_TAIL: Final = re.compile(r"_numpy(_\d+)?$")


def count_accelopt(listing: Listing) -> int:
    """Files that hold a function to be matched, and the one that gives its inputs."""
    return sum(_is_reference(text) for text in listing.named(".py").values())


def read_accelopt(listing: Listing) -> list[Draft]:
    """The tasks that the summary lists, or every reference file where there is no summary."""
    drafts = [
        draft
        for path, text in listing.named(SUMMARY).items()
        for draft in _read_summary(path, text, listing)
    ]
    if drafts:
        return drafts
    files = listing.named(".py")
    return [_draft(path, text) for path, text in files.items() if _is_reference(text)]


def _is_reference(text: str) -> bool:
    return bool(_FORWARD.search(text) and _INPUTS.search(text))


def _read_summary(path: str, text: str, listing: Listing) -> list[Draft]:
    """Each different task file that an entry of the summary names."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return [Draft(id=make_slug(path), origin=path, problem=f"not JSON: {error}")]
    folder = PurePosixPath(path).parent
    names = dict.fromkeys(_list_tasks(found))
    drafts = []
    for name in names:
        file = (folder / name).as_posix()
        if file in listing.texts:
            drafts.append(_draft(file, listing.texts[file]))
        else:
            reason = listing.problems.get(file, f"{path} names it, but there is no such file")
            drafts.append(Draft(id=_make_id(file), origin=file, problem=reason))
    return drafts


def _list_tasks(value: Any) -> list[str]:
    """Every text under a key `task`, however deep."""
    if isinstance(value, list):
        return [name for item in value for name in _list_tasks(item)]
    if not isinstance(value, dict):
        return []
    own = [value["task"]] if isinstance(value.get("task"), str) else []
    return own + [name for item in value.values() for name in _list_tasks(item)]


def _make_id(path: str) -> str:
    return make_slug(_TAIL.sub("", PurePosixPath(path).stem))


def _draft(path: str, text: str) -> Draft:
    problem = is_python(text)
    return Draft(
        id=_make_id(path),
        origin=path,
        templates=() if problem else make_templates(text.rstrip() + ALIAS),
        category=CATEGORY,
        problem=problem,
    )
