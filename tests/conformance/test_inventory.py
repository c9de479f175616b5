"""Every listed function of NKI has its declaration and a test, or is known as not modelled."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from nki_agent.nki.current.modules import MODULES, SIGNATURES
from nki_agent.nki.current.names import NOT_MODELLED

TESTS = Path(__file__).resolve().parent.parent
LISTED = [
    line
    for line in files("nki_agent.nki").joinpath("inventory-0.6.0.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
SHORT = {"nki": "nki", "nki.isa": "nisa", "nki.language": "nl", "nki.collectives": "ncc"}


def parts_of(line: str) -> tuple[str, str, list[str]]:
    """(module, name, parameters) of a line."""
    full, _, rest = line.partition("(")
    module, _, name = full.rpartition(".")
    return module, name, [p.strip() for p in rest.rstrip(")").split(",") if p.strip()]


@pytest.fixture(scope="session")
def used_names() -> frozenset[str]:
    """Names that some test uses, as `nl.exp` or `nisa.iota`."""
    text = "\n".join(p.read_text() for p in TESTS.rglob("*") if p.suffix in (".py", ".toml"))
    return frozenset(re.findall(r"\b(?:nki|nisa|nl|ncc)\.\w+", text))


def test_inventory_lists_the_168_callables() -> None:
    assert len(LISTED) == 168
    assert len(set(LISTED)) == 168


@pytest.mark.parametrize("line", LISTED)
def test_listed_function_has_its_parameters_or_is_known_as_not_modelled(line: str) -> None:
    module, name, parameters = parts_of(line)
    if name in NOT_MODELLED[module]:
        assert name not in MODULES[module]
        return
    found = [
        ("**" if p.kind is p.VAR_KEYWORD else "") + p.name + ("" if p.default is p.empty else "=")
        for p in SIGNATURES[f"{module}.{name}"].parameters.values()
    ]
    assert found == parameters


@pytest.mark.parametrize("line", LISTED)
def test_listed_function_has_a_test(line: str, used_names: frozenset[str]) -> None:
    module, name, _ = parts_of(line)
    if name not in NOT_MODELLED[module]:
        assert f"{SHORT[module]}.{name}" in used_names


def test_nothing_is_both_modelled_and_not() -> None:
    listed = {tuple(parts_of(line)[:2]) for line in LISTED}
    for module, names in NOT_MODELLED.items():
        assert all((module, name) in listed for name in names)
