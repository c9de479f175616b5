"""Rules of form that no linter checks: sizes, names, open ends, numbers in prose."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.source import PACKAGE, ROOT, read_modules

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
SENTENCE_WORDS_MAX = 25
AGENTS_LINES_MAX = 100
OPEN_END = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
FILLER_NAMES = {"utils", "util", "common", "helpers", "misc", "core", "manager"}
# A measured figure in prose: a number with a unit of time, a share, or a factor.
FIGURE = re.compile(r"\d(?:\s?(?:ns|µs|ms)\b|\s?[%×])")
SOURCE_MARK = "<!-- from "
# Records and logs state what was measured on their day; reference pages are generated.
UNMARKED = ("docs/decisions", "docs/reference", "docs/log.md")


def find_functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def find_prose() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted(p for p in pages if not p.relative_to(ROOT).as_posix().startswith(UNMARKED))


def read_paragraphs(page: Path) -> list[str]:
    without_code = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    return re.split(r"\n\s*\n", without_code)


def test_module_fits_its_size() -> None:
    sizes = {m.name: len(m.text.splitlines()) for m in read_modules()}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES_MAX} == {}


def test_function_fits_one_screen() -> None:
    sizes = {
        f"{m.name}:{f.lineno} {f.name}": (f.end_lineno or f.lineno) - f.lineno + 1
        for m in read_modules()
        for f in find_functions(m.tree)
    }
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES_MAX} == {}


def test_module_has_a_docstring() -> None:
    assert [m.name for m in read_modules() if not ast.get_docstring(m.tree)] == []


def test_module_is_named_for_what_it_defines() -> None:
    parts = {(m.name, part) for m in read_modules() for part in m.name.split(".")}
    assert {name for name, part in parts if part in FILLER_NAMES} == set()


def test_tests_mirror_the_rooms() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    beside = {"conformance", "cheats", "e2e", "fuzz"}
    folders = {p.name for p in (ROOT / "tests").iterdir() if any(p.glob("**/*.py"))}
    assert folders - rooms - beside == set()


@pytest.mark.parametrize("folder", ["src", "tests", "scripts", "docs", "examples", "benchmarks"])
def test_no_open_ends(folder: str) -> None:
    files = [p for p in (ROOT / folder).rglob("*") if p.suffix in {".py", ".md", ".sh", ".toml"}]
    open_ends = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if OPEN_END.search(line)
    ]
    assert open_ends == []


def test_changelog_entry_is_one_short_sentence() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    entries = [" ".join(e.split()) for e in re.findall(r"^- (.+?)(?=^- |^#|\Z)", text, re.M | re.S)]
    assert entries
    assert [e for e in entries if len(e.split()) > SENTENCE_WORDS_MAX] == []
    assert [e for e in entries if not re.fullmatch(r"[^.]*(?:\.\S[^.]*)*\.", e)] == []


def test_agents_page_stays_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text("utf-8").splitlines()) < AGENTS_LINES_MAX


@pytest.mark.parametrize("page", find_prose(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_figure_in_prose_names_its_source(page: Path) -> None:
    """A paragraph with a measured figure says `<!-- from results/x.json by `make tables` -->`."""
    bare = [p for p in read_paragraphs(page) if FIGURE.search(p) and SOURCE_MARK not in p]
    assert bare == []


def without_code(page: Path) -> str:
    """Prose alone: `kernel[2](x)` is no link."""
    return re.sub(r"`[^`\n]*`", "", page.read_text("utf-8"))


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", without_code(page))
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_decision_records_are_numbered_without_gaps() -> None:
    numbers = sorted(int(p.name[:4]) for p in (ROOT / "docs/decisions").glob("*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
