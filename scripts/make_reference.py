"""Writes docs/reference/ from the code: diagnostic codes and API coverage; `--check` only compares.

Law: a page holds nothing that the code does not say, so code and docs can't differ.
"""

import sys
from pathlib import Path

from nki_agent.base.catalogue import CATALOGUE, CodeInfo
from nki_agent.nki.current.modules import MODULES, SIGNATURES, signature_text
from nki_agent.nki.current.names import NOT_MODELLED

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
MARK = "<!-- Made by `make docs` from src/nki_agent/base/catalogue.py; don't edit. -->"
COVERAGE_MARK = "<!-- Made by `make docs` from src/nki_agent/nki/current; don't edit. -->"
FAMILIES = {
    "1": "Source form",
    "2": "Memory and shapes",
    "3": "Instruction operands",
    "4": "Ordering and races",
    "5": "Numerics",
    "6": "Performance advice",
    "9": "Cheating",
}


def make_page(info: CodeInfo) -> str:
    """One page: what the code means and what to do."""
    parts = [f"# {info.code}: {info.title}", MARK, info.explanation.strip()]
    if info.hint:
        parts.append(f"**What to do.** {info.hint.strip()}")
    parts.append(f"Family: {FAMILIES[info.code[2]].lower()}. [All codes](codes.md).")
    return "\n\n".join(parts) + "\n"


def make_index() -> str:
    """The list of all codes by family."""
    parts = ["# Diagnostic codes", MARK]
    for digit, family in FAMILIES.items():
        rows = [info for code, info in sorted(CATALOGUE.items()) if code[2] == digit]
        if rows:
            parts.append(f"## {family}")
            parts.append("\n".join(f"- [{i.code}]({i.code.lower()}.md): {i.title}" for i in rows))
    return "\n\n".join(parts) + "\n"


def make_coverage() -> str:
    """What of `nki` 0.6.0 is modelled, module by module."""
    parts = ["# What of `nki` 0.6.0 is modelled", COVERAGE_MARK]
    for module, names in MODULES.items():
        functions = sorted(n for n in names if f"{module}.{n}" in SIGNATURES)
        others = sorted(names - set(functions))
        missing = sorted(NOT_MODELLED.get(module, ()))
        parts.append(f"## `{module}`")
        if functions:
            calls = (f"- `{signature_text(f'{module}.{name}')}`" for name in functions)
            parts.append("\n".join(calls))
        if others:
            parts.append("Names: " + ", ".join(f"`{name}`" for name in others) + ".")
        if missing:
            listed = ", ".join(f"`{name}`" for name in missing)
            parts.append(f"Not modelled, refused with [NK114](nk114.md): {listed}.")
    return "\n\n".join(parts) + "\n"


def make_pages() -> dict[str, str]:
    """Every file of docs/reference that comes from the code, by name."""
    pages = {f"{info.code.lower()}.md": make_page(info) for info in CATALOGUE.values()}
    return pages | {"codes.md": make_index(), "coverage.md": make_coverage()}


def find_stale(pages: dict[str, str]) -> list[str]:
    """Names of pages that are missing, differ, or belong to no code any more."""
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("nk*.md")}
    for name in ("codes.md", "coverage.md"):
        if (FOLDER / name).exists():
            on_disk[name] = (FOLDER / name).read_text(encoding="utf-8")
    return sorted(name for name in pages | on_disk if pages.get(name) != on_disk.get(name))


def main() -> int:
    """Bring the folder up to date, or say what is not."""
    pages = make_pages()
    stale = find_stale(pages)
    if "--check" in sys.argv[1:]:
        print("\n".join(f"stale: docs/reference/{name}" for name in stale), end="")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in pages:
            (FOLDER / name).write_text(pages[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    print(f"docs/reference: {len(pages)} pages, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
