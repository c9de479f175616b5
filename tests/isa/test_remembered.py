"""What is remembered of a signature is what would be worked out anew."""

from __future__ import annotations

import pytest

from nki_agent.isa import remembered
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.isa.remembered import remember
from nki_agent.isa.signature import AttributeValue, Operand, Pattern, Signature


def make_signature(value: AttributeValue = True, *, count: int = 8) -> Signature:
    operand = Operand("dst", Memory.SBUF, DType.FLOAT32, Pattern((0, 1, 128), ((4, count),)))
    return Signature("memset", (("flag", value),), None, (operand,))


def test_equal_signatures_of_two_programs_are_worked_out_once() -> None:
    calls: list[Signature] = []
    find = remember(calls.append)
    for count in (8, 8, 9):
        find(make_signature(count=count))
    assert calls == [make_signature(), make_signature(count=9)]


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), (0.0, -0.0), (True, 1.0)])
def test_attributes_that_are_equal_and_not_the_same_are_told_apart(
    one: AttributeValue, other: AttributeValue
) -> None:
    find = remember(lambda signature: repr(signature.attribute("flag")))
    assert (find(make_signature(one)), find(make_signature(other))) == (repr(one), repr(other))


def test_other_arguments_are_told_apart_by_identity() -> None:
    find = remember(lambda _signature, number: id(number))
    first, second = [1], [1]
    assert find(make_signature(), first) == id(first)
    assert find(make_signature(), second) == id(second)


def test_what_raises_is_asked_again() -> None:
    calls: list[Signature] = []

    @remember
    def refuse(signature: Signature) -> int:
        calls.append(signature)
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError, match=r"^$"):
            refuse(make_signature())
    assert len(calls) == 2


def test_nothing_is_kept_of_a_signature_that_is_longer_than_the_limit() -> None:
    calls: list[Signature] = []
    find = remember(calls.append)
    long = make_signature("x" * remembered.KEY_BYTES_MAX)
    find(long)
    find(long)
    assert len(calls) == 2


def test_memory_holds_no_more_answers_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "ANSWERS_MAX", 3)
    calls: list[Signature] = []
    find = remember(calls.append)
    for count in (1, 2, 3, 4, 1):
        find(make_signature(count=count))
    assert len(calls) == 5


def test_signature_without_a_stored_form_is_worked_out_each_time() -> None:
    find = remember(lambda signature: signature.op)
    assert find(make_signature(2**70)) == "memset"
