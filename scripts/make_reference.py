"""Writes docs/reference/ from the code: codes, coverage, recipes, keys; `--check` only compares.

Law: a page holds nothing that the code does not say, so code and docs can't differ.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from nki_agent.base.catalogue import CATALOGUE, CodeInfo
from nki_agent.check.rules.nk118_deprecated import DEPRECATED
from nki_agent.chip.spec import GENERATION
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.modules import MODULES, SIGNATURES, signature_text
from nki_agent.nki.current.names import NOT_MODELLED
from nki_agent.sim.table import HANDLERS
from nki_agent.task.named_recipe import RECIPES
from nki_agent.task.tolerance import LIMITS

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
MARK = "<!-- Made by `make docs` from src/nki_agent/base/catalogue.py; don't edit. -->"
COVERAGE_MARK = "<!-- Made by `make docs` from src/nki_agent and tests; don't edit. -->"
COVERAGE_HEAD = """\
An *instruction* is checked against its declaration, simulated, and has a cost; where not every
target has it, those that do are named. A function of the *front end* becomes instructions, a view
or a value while the kernel is traced. The tests are the files under `tests/` that say most."""
TASK_MARK = "<!-- Made by `make docs` from src/nki_agent/task; don't edit. -->"
RECIPES_HEAD = """\
What a [declared](../guides/write-a-task.md) tensor's values are. `normal` is taken where none is
named. A trial draws a scale from 0.7 to 1.4 for each tensor whose recipe follows it, and the
families big and tiny scale the same ones among the inputs."""
TOLERANCE_HEAD = """\
Both limits hold, and each row along the last axis may be ten times as far off as the whole. `EX`
is equal element for element; integer and boolean outputs are so in every class but `Q1` and `Q2`,
where 8-bit codes may be one step off on a few elements. `BM` is `F2` for float32 outputs and `B1`
for narrower ones."""
CONFIG_MARK = "<!-- Made by `make docs` from src/nki_agent/train/config.py; don't edit. -->"
CONFIG_HEAD = """\
`nki-agent train sft` takes the keys of *SftConfig*, `train grpo` those of *GrpoConfig*; a key whose
type is another of these is a table of that name, as `[model]`. A key without a default must be
there. `configs/` has whole files."""
CONFIG = ROOT / "src" / "nki_agent" / "train" / "config.py"
ALIASES = {"nki": "nki", "nki.isa": "nisa", "nki.language": "nl", "nki.collectives": "ncc"}
TESTS_SHOWN_MAX = 3
TEST_ROOMS = ("conformance", "sim", "nki", "isa")
"""Rooms whose tests say most about what a function does, first to last; the others come after."""
_CALL = re.compile(r"\b(?:nki|nisa|nl|ncc)\.\w+")
_OP = re.compile(r"[\"'](\w+)[\"']")
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
    parts = ["# What of `nki` 0.6.0 is modelled", COVERAGE_MARK, COVERAGE_HEAD]
    tests = find_tests()
    for module, names in MODULES.items():
        functions = sorted(n for n in names if f"{module}.{n}" in SIGNATURES)
        others = sorted(names - set(functions))
        missing = sorted(NOT_MODELLED.get(module, ()))
        parts.append(f"## `{module}`")
        if functions:
            rows = ["| Function | Status | Tests |", "|---|---|---|"]
            rows += [write_function(module, name, tests) for name in functions]
            parts.append("\n".join(rows))
        if others:
            parts.append("Names: " + ", ".join(f"`{name}`" for name in others) + ".")
        if missing:
            listed = ", ".join(f"`{name}`" for name in missing)
            parts.append(f"Not modelled, refused with [NK114](nk114.md): {listed}.")
    return "\n\n".join(parts) + "\n"


def make_recipes() -> str:
    """The recipes of declared tensors, and the tolerance classes."""
    parts = ["# Recipes and tolerance classes", TASK_MARK, "## Recipes", RECIPES_HEAD]
    rows = [
        "| Recipe | Values | Follows the trial's scale and family | For integers |",
        "|---|---|---|---|",
    ]
    for kind in RECIPES.values():
        scaled = "yes" if kind.is_scaled else "no"
        rows.append(f"| `{kind}` | {kind.about} | {scaled} | {'yes' if kind.is_whole else 'no'} |")
    parts += ["\n".join(rows), "## Tolerance classes", TOLERANCE_HEAD]
    rows = ["| Class | Relative L2 error | Largest error over root mean square |", "|---|---|---|"]
    rows += [
        f"| `{name}` | {rel_l2:g} | {largest:g} |" for name, (rel_l2, largest) in LIMITS.items()
    ]
    parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def find_tests() -> dict[str, list[str]]:
    """Files of tests by the function that they are about, as `nisa.iota`; the best first."""
    found: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.suffix not in (".py", ".toml") or "cheats/kernels" in path.as_posix():
            continue
        # A line end inside of a test's string is no letter of the name after it.
        text = path.read_text(encoding="utf-8").replace("\\n", " ")
        file = path.relative_to(ROOT / "tests")
        room = file.parts[0]
        names = Counter(_CALL.findall(text))
        if room in ("conformance", "sim"):
            # Programs that a test builds name their instructions in quotes.
            names += Counter(f"nisa.{name}" for name in _OP.findall(text) if name in TABLE)
        rank = TEST_ROOMS.index(room) if room in TEST_ROOMS else len(TEST_ROOMS)
        for name, count in names.items():
            found[name].append((rank, -count, file.as_posix()))
    return {name: [file for *_, file in sorted(places)] for name, places in found.items()}


def write_function(module: str, name: str, tests: dict[str, list[str]]) -> str:
    """A row of the coverage table."""
    full = f"{module}.{name}"
    call = signature_text(full).replace("|", "\\|")
    files = tests.get(f"{ALIASES[module]}.{name}", [])
    shown = ", ".join(f"`{file}`" for file in files[:TESTS_SHOWN_MAX])
    return f"| `{call}` | {find_status(full)} | {shown} |"


def find_status(full: str) -> str:
    """What becomes of a call."""
    name = full.rpartition(".")[2]
    declaration = TABLE.get(name)
    if declaration is not None and declaration.page == full:
        first = declaration.first_generation
        targets = [t.value for t, generation in GENERATION.items() if generation >= first]
        assert name in HANDLERS
        where = "" if len(targets) == len(GENERATION) else f" ({', '.join(targets)})"
        status = f"instruction{where}"
    else:
        status = "front end"
    return f"{status}, deprecated" if full in DEPRECATED else status


def make_train_config() -> str:
    """Every key of a training's config, with its type, default and meaning."""
    parts = ["# Keys of a training's config", CONFIG_MARK, CONFIG_HEAD]
    for node in ast.parse(CONFIG.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        rows = [*_list_keys(node)]
        if rows:
            head = ["| Key | Type | Default | Meaning |", "|---|---|---|---|"]
            parts += [f"## {node.name}", ast.get_docstring(node) or "", "\n".join([*head, *rows])]
    return "\n\n".join(parts) + "\n"


def _list_keys(part: ast.ClassDef) -> Iterator[str]:
    for key, following in zip_longest(part.body, part.body[1:]):
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name):
            default = "" if key.value is None else f"`{ast.unparse(key.value)}`"
            meaning = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                meaning = " ".join(str(following.value.value).split())
            cells = (f"`{key.target.id}`", f"`{ast.unparse(key.annotation)}`", default, meaning)
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def make_pages() -> dict[str, str]:
    """Every file of docs/reference that comes from the code, by name."""
    pages = {f"{info.code.lower()}.md": make_page(info) for info in CATALOGUE.values()}
    return pages | {
        "codes.md": make_index(),
        "coverage.md": make_coverage(),
        "recipes.md": make_recipes(),
        "train-config.md": make_train_config(),
    }


def find_stale(pages: dict[str, str]) -> list[str]:
    """Names of pages that are missing, differ, or belong to no code any more."""
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("nk*.md")}
    for name in ("codes.md", "coverage.md", "recipes.md", "train-config.md"):
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
