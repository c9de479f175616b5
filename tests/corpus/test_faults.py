"""Planted faults: each kind has a place in some kernel of the author's, and changes that only."""

import ast
from functools import cache
from pathlib import Path

import pytest

from nki_agent.base.seeds import rng_for
from nki_agent.corpus.faults.fault import Fault, FaultFamily
from nki_agent.corpus.faults.kernel_text import KernelText
from nki_agent.corpus.faults.planting import FAULTS, list_drafts

GOLDEN = Path(__file__).parent.parent / "builtin" / "golden"
OWN = {
    "cast-function": "nisa.tensor_copy(dst=tile, src=product)",
    "operands-reversed": "nisa.tensor_tensor(dst=tile, data1=x, data2=y, op=nl.subtract)",
}
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl

PARTITIONS = 128


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for r0 in range(0, x.shape[0], PARTITIONS):
        rows = min(PARTITIONS, x.shape[0] - r0)
        tile = nl.ndarray((rows, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[r0 : r0 + rows, :])
        nisa.activation(
            dst=tile,
            op=nl.exp,
            data=tile,
            bias=shift,
        )
        nisa.dma_copy(dst=y[r0 : r0 + rows, :], src=tile)
    return y
"""


@cache
def golden_kernels() -> tuple[str, ...]:
    """Kernels of the author, and a few lines for what none of them does."""
    found = [path.read_text(encoding="utf-8") for path in sorted(GOLDEN.glob("*.txt"))]
    return (*found, *OWN.values())


def find_drafts(fault: Fault) -> list[tuple[str, str, str]]:
    """Right source, faulty source and cause, for the first places of the first kernels."""
    found = []
    for source in golden_kernels():
        kernel = KernelText(source)
        places = list(fault.find(kernel))[:3]
        found += [(source, kernel.apply(place.changes), place.cause) for place in places]
    return found[:30]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_has_places_and_leaves_python(fault: Fault) -> None:
    drafts = find_drafts(fault)
    assert drafts
    for right, faulty, cause in drafts:
        assert faulty != right
        ast.parse(faulty)
        assert cause
        assert "\n" not in cause
        assert not cause.endswith(".")


def test_families_are_those_of_model_written_kernels() -> None:
    assert {fault.family for fault in FAULTS} == set(FaultFamily)
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) >= 40


def test_drafts_are_the_same_for_the_same_chance() -> None:
    source = golden_kernels()[0]
    first = [d.source for d in list_drafts(source, rng_for(1, "a"))]
    assert first == [d.source for d in list_drafts(source, rng_for(1, "a"))]
    assert first != [d.source for d in list_drafts(source, rng_for(2, "a"))]


def test_wanted_family_comes_first() -> None:
    for family in FaultFamily:
        first = next(list_drafts(KERNEL, rng_for(0, "b"), first=family))
        assert first.fault.family is family


def test_keyword_goes_with_its_comma() -> None:
    kernel = KernelText("f(a=1, b=2)\ng(\n    a=1,\n    b=2,\n)\nh(a=1)\n")
    changed = [
        kernel.apply([kernel.drop_keyword(call.keywords[-1])]).splitlines()
        for call in kernel.calls()
    ]
    assert changed[0][0] == "f(a=1)"
    assert changed[1][1:] == ["g(", "    a=1,", "    )", "h(a=1)"]
    assert changed[2][-1] == "h()"


def test_last_statement_of_a_block_stays() -> None:
    kernel = KernelText("if x:\n    y()\nz()\n")
    inner, outer = (kernel.statement(call) for call in kernel.calls())
    assert kernel.drop_statement(inner) is None
    change = kernel.drop_statement(outer)
    assert change is not None
    assert kernel.apply([change]) == "if x:\n    y()\n"


def test_places_are_counted_in_bytes() -> None:
    kernel = KernelText('"""Größe in µs."""\nx = "µ" + name\n')
    (name,) = [n for n in kernel.find(ast.Name) if isinstance(n, ast.Name) and n.id == "name"]
    assert kernel.apply([kernel.replace(name, "other")]).endswith('x = "µ" + other\n')
