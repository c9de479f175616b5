"""docs/reference says exactly what the catalogue of diagnostic codes says."""

import re

from nki_agent.base.catalogue import CATALOGUE
from scripts.make_reference import FAMILIES, find_stale, make_pages
from tests.source import read_modules

CODE = re.compile(r'["\'](NK\d{3})["\']')


def test_reference_pages_equal_the_catalogue() -> None:
    assert find_stale(make_pages()) == [], "run `make docs`"


def test_codes_belong_to_a_family_and_to_their_key() -> None:
    wrong = [c for c, info in CATALOGUE.items() if c != info.code or c[2] not in FAMILIES]
    assert wrong == []


def test_codes_in_source_are_in_the_catalogue() -> None:
    used = {code for module in read_modules() for code in CODE.findall(module.text)}
    assert used - set(CATALOGUE) == set()


def test_codes_in_the_catalogue_have_a_rule() -> None:
    rules = [m for m in read_modules() if m.path.name != "catalogue.py"]
    used = {code for module in rules for code in CODE.findall(module.text)}
    assert set(CATALOGUE) - used == set()
