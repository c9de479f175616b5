"""Orders in processes: answers in order, and failures that cost one order only."""

from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.corpus.workers import Crew
from nki_agent.farm.job import Faulted, Lost, Unusable

ENTRY = "tests.corpus.crews:make_echo"


def work(*orders: str, workers: int = 2, seconds: float = 60.0) -> list[object]:
    crew = Crew(entry=ENTRY, workers=workers, seconds=seconds)
    return list(crew.work(order.encode() for order in orders))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_answers_come_in_the_order_of_the_orders(workers: int) -> None:
    orders = ["late 0.3", *(f"plain {n}" for n in range(200))]
    assert work(*orders, workers=workers) == [order.encode() for order in orders]


def test_no_orders_have_no_answers() -> None:
    assert work() == []


def test_crew_that_is_left_early_ends_its_processes() -> None:
    crew = Crew(entry=ENTRY, workers=3)
    answers = crew.work(f"plain {n}".encode() for n in range(1000))
    assert next(answers) == b"plain 0"
    answers.close()


def test_process_that_dies_costs_its_order_only() -> None:
    first, second, third = work("plain 1", "die", "plain 2", workers=1)
    assert first == b"plain 1"
    assert third == b"plain 2"
    assert second == Lost("its process ended with status 3")


def test_order_whose_process_died_is_tried_again(tmp_path: Path) -> None:
    order = f"die-once {tmp_path / 'mark'}"
    assert work(order) == [order.encode()]


def test_order_that_takes_too_long_is_lost() -> None:
    lost, kept = work("late 60", "plain", workers=1, seconds=3.0)
    assert lost == Lost("it takes longer than 3 s")
    assert kept == b"plain"


def test_what_is_printed_is_no_answer() -> None:
    assert work("print it", "plain") == [b"print it", b"plain"]


def test_errors_say_whose_failure_they_are() -> None:
    refused, bug = work("refuse", "bug")
    assert refused == Unusable("no such shape", "another one")
    assert isinstance(bug, Faulted)
    assert "ValueError: a bug" in bug.trace


def test_crew_of_nobody_is_refused() -> None:
    with pytest.raises(UsageError, match="0 workers"):
        Crew(entry=ENTRY, workers=0)
