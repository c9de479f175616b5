"""Look-up finds by name, by code and by words, and says so when it finds nothing."""

import pytest

from nki_agent.agent.cards import CARDS_MAX, look_up, make_cards
from nki_agent.base.catalogue import CATALOGUE
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.isa.ops import ACTIVATIONS, ALU_OPS
from nki_agent.isa.table import TABLE


def find(query: str) -> str:
    return look_up(query, target=Target.TRN2)


def test_every_name_has_a_card() -> None:
    names = {*TABLE, *ALU_OPS, *ACTIVATIONS, *CATALOGUE}
    assert [name for name in sorted(names) if name not in find(name).splitlines()[0]] == []


@pytest.mark.parametrize(
    "query", ["nisa.tensor_reduce", "nki.isa.tensor_reduce", "`tensor_reduce`", "TENSOR_REDUCE"]
)
def test_name_is_found_however_it_is_written(query: str) -> None:
    assert find(query).startswith("nisa.tensor_reduce(dst, op, data, axis")


def test_words_find_what_they_describe() -> None:
    assert "NK204" in find("matmul result crosses a bank")
    assert "nl.softmax(" in find("row softmax")


def test_answer_is_short() -> None:
    assert find("tile of the tensor").count("\n\n") < CARDS_MAX


def test_nothing_found_names_what_is_near() -> None:
    assert find("softmx") == "nothing found for `softmx`; near names: softmax, row_softmax"
    assert find("zzz").startswith("nothing found for `zzz`; try")


def test_instruction_that_the_target_lacks_says_so() -> None:
    text = "Only from NeuronCore-v4 on; this target is NeuronCore-v3"
    assert text in find("nisa.nc_matmul_mx")
    assert "Only from" not in look_up("nisa.nc_matmul_mx", target=Target.TRN3)


def test_device_print_has_one_card() -> None:
    assert find("device_print").startswith("nl.device_print(print_prefix, tensor)")
    assert find("device_print").count("nl.device_print(") == 1


def test_cards_of_a_target_know_its_limits() -> None:
    texts = [card.text for card in make_cards(Target.TRN1)]
    assert any("SBUF for a kernel: 180224 bytes" in text for text in texts)


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("softmax pattern", "Worked pattern: Softmax of rows"),
        ("pattern matmul", "Worked pattern: a.T @ b"),
        ("linear layer projection", "Worked pattern: Matrix multiply, x [M, K] @ w [K, N]"),
        ("sum over the batch across partitions", "Worked pattern: Sum over rows"),
        ("how do I make a kernel faster", "Guide: Make a right kernel faster"),
        ("rmsnorm", "Worked pattern: Normalise rows"),
        ("causal attention mask", "Worked pattern: Mask by position"),
    ],
)
def test_words_find_the_pattern(query: str, title: str) -> None:
    assert title in find(query)


def test_surface_of_instructions_is_shown_no_kernel_that_leaves_places_out() -> None:
    text = look_up("softmax of rows", target=Target.TRN2, surface=Surface.ISA)
    assert "nl.ndarray(" not in text
    faster = look_up("make it faster", target=Target.TRN2, surface=Surface.ISA)
    assert "Guide: Make a right kernel faster" in faster
