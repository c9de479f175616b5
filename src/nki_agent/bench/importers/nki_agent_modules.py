"""The public NKI-Agent benchmark: texts of a model and of its inputs, in Python modules or JSON.

Law: modules that make the texts when they run are run in the locked process. Weights become
arguments of the kernel, which that benchmark never handed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from nki_agent.base.diagnostic import clean
from nki_agent.bench.importers.draft import Draft, make_slug
from nki_agent.bench.importers.fitting import is_python
from nki_agent.bench.importers.foreign import Foreign
from nki_agent.bench.importers.kernelbench import make_templates
from nki_agent.bench.importers.listing import Listing
from nki_agent.bench.importers.messages import Collected, Found, Refused, TooLarge

MODEL_FIELD: Final = "model_class_code"
INIT: Final = "__init__"


class Entry(msgspec.Struct, frozen=True):
    """One task as JSON; fields that are not named here are let be."""

    model_class_code: str
    get_inputs_code: str = ""
    get_init_inputs_code: str = ""
    task_id: str = ""
    name: str = ""
    level: int = 0
    category: str = ""


def count_modules(listing: Listing) -> int:
    """Files that speak of the format's fields."""
    return sum(MODEL_FIELD in text for text in listing.texts.values())


def read_modules(listing: Listing, foreign: Foreign) -> list[Draft]:
    """The tasks of the JSON files, then those of the packages."""
    drafts: list[Draft] = []
    for path, text in listing.named(".json", ".jsonl").items():
        if MODEL_FIELD in text:
            drafts += _read_json(path, text)
    for folder, modules in _group_packages(listing).items():
        drafts += _read_package(folder, modules, listing, foreign)
    return drafts


def _read_json(path: str, text: str) -> Iterator[Draft]:
    try:
        found = _decode(path, text)
    except msgspec.DecodeError as error:
        yield Draft(id=make_slug(path), origin=path, problem=f"not JSON: {error}")
        return
    for index, value in enumerate(_list_entries(found)):
        origin = f"{path}#{index}"
        try:
            entry = msgspec.convert(value, Entry)
        except msgspec.ValidationError as error:
            name = make_slug(f"{PurePosixPath(path).stem}-{index}")
            yield Draft(id=name, origin=origin, problem=f"not of the format: {error}")
            continue
        yield _draft(
            Found(
                id=entry.task_id or entry.name or f"{PurePosixPath(path).stem}-{index}",
                name=entry.name,
                level=entry.level,
                category=entry.category,
                model=entry.model_class_code,
                inputs=entry.get_inputs_code,
                init_inputs=entry.get_init_inputs_code,
            ),
            origin=origin,
        )


def _decode(path: str, text: str) -> Any:
    if path.endswith(".jsonl"):
        return [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
    return msgspec.json.decode(text)


def _list_entries(value: Any) -> Iterator[Any]:
    """The tasks: a list, a mapping of them, one alone, or a list under some key."""
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict) and MODEL_FIELD in value:
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            if isinstance(item, list):
                yield from item
            elif isinstance(item, dict):
                yield item


def _group_packages(listing: Listing) -> dict[str, dict[str, str]]:
    """Texts of the modules by folder, for folders of which a module speaks of the format."""
    folders: dict[str, dict[str, str]] = {}
    for path, text in listing.named(".py").items():
        place = PurePosixPath(path)
        folders.setdefault(place.parent.as_posix(), {})[place.stem] = text
    return {
        folder: modules
        for folder, modules in folders.items()
        if any(MODEL_FIELD in text for text in modules.values())
    }


def _read_package(
    folder: str, modules: dict[str, str], listing: Listing, foreign: Foreign
) -> list[Draft]:
    name = listing.name if folder == "." else PurePosixPath(folder).name
    package = name if name.isidentifier() else make_slug(name).replace("-", "_")
    texts = {f"{package}.{stem}": text for stem, text in modules.items() if stem != INIT}
    wanted = [module for module, text in texts.items() if MODEL_FIELD in text]
    texts[package] = modules.get(INIT, "")
    found = foreign.collect(texts, package=package, wanted=wanted)
    match found:
        case Collected(tasks=tasks):
            drafts = [_draft(task, origin=f"{folder}#{clean(task.id)}") for task in tasks]
            return drafts or [_spoilt(name, folder, "its modules give no task")]
        case Refused(reason=reason) | TooLarge(reason=reason):
            return [_spoilt(name, folder, f"its modules cannot be run: {reason}")]


def _spoilt(name: str, folder: str, reason: str) -> Draft:
    return Draft(id=make_slug(name), origin=folder, problem=reason)


def _draft(task: Found, *, origin: str) -> Draft:
    slug = make_slug(task.id)
    name = make_slug(task.name) if task.name else slug
    text = "\n\n\n".join(
        part.strip("\n") for part in (task.model, task.inputs, task.init_inputs) if part.strip()
    )
    problem = is_python(text)
    if not problem and not task.inputs.strip():
        problem = "it has no `get_inputs_code`"
    return Draft(
        id=slug if name in slug else f"{slug}-{name}",
        origin=origin,
        templates=() if problem else make_templates(text + "\n"),
        level=max(task.level, 0),
        category=task.category,
        problem=problem,
    )
