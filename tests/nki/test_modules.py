"""The names that kernels import are lent: fresh in every block, and gone after it."""

import sys
from types import ModuleType

from nki_agent.nki.current.modules import MODULES, installed


def test_every_block_has_modules_of_its_own() -> None:
    with installed() as first:
        first["nki.language"].__dict__["forged"] = 1
    with installed() as second:
        assert not set(first.values()) & set(second.values())
        assert "forged" not in vars(second["nki.language"])


def test_names_are_gone_after_the_block_also_those_that_came_later() -> None:
    with installed():
        assert set(MODULES) <= set(sys.modules)
        sys.modules["nki.later"] = ModuleType("nki.later")
    assert not [name for name in sys.modules if name == "nki" or name.startswith("nki.")]


def test_modules_of_another_package_of_the_name_come_back() -> None:
    others = {name: ModuleType(name) for name in ("nki", "nki.isa", "nki.extra")}
    sys.modules.update(others)
    try:
        with installed():
            assert "nki.extra" not in sys.modules
        assert {name: sys.modules[name] for name in others} == others
    finally:
        for name in others:
            del sys.modules[name]
