"""The experiment: what is held out is never taught, and the page says what the records hold."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.experiment.carrying import settle_plan
from benchmarks.experiment.choosing import Counts, choose_tasks, find_known
from benchmarks.experiment.drawing import smooth
from benchmarks.experiment.figures import Figures, count_groups, lift
from benchmarks.experiment.page import Parts, write_page
from benchmarks.experiment.plan import ExperimentPlan, read_plan
from benchmarks.experiment.record import Group, SeedRecord, load_record, write_record
from benchmarks.experiment.report import Shared, make_page
from benchmarks.experiment.stages import BASE, MODELS, SFT
from nki_agent.agent.episode import Mode
from nki_agent.base.errors import UsageError
from nki_agent.corpus.record import BoundKind, CorpusTask, Family, Split
from nki_agent.train.evaluate import Try
from nki_agent.verify.verdict import Stage

COUNTS = Counts(
    train_fused=10,
    practice_single=8,
    practice_fused=5,
    held_out_single=12,
    held_out_known=2,
    held_out_fused=4,
)
TASKS = 20
COUNTED = {
    "vocabulary": 100,
    "taught tasks": 9,
    "taught tasks with one operator": 4,
    "taught tasks at another rank": 2,
    "taught tasks with other numbers": 1,
    "dialogues": 10,
    "repairs": 2,
    "held-out tasks of taught graphs": 5,
    "practice tasks": 3,
    "held-out tasks": TASKS,
    "held-out tasks with one operator": TASKS,
    "held-out tasks solved by the author": TASKS,
}


def make_task(number: int, *, level: int, split: Split, graph: str) -> CorpusTask:
    return CorpusTask(
        id=f"c-elementwise-a-{level}{number:03}",
        source="",
        sha256="",
        family=Family.ELEMENTWISE,
        pattern="unary",
        operators=("relu",),
        level=level,
        rank=2,
        dtype="float32",
        tolerance="F2",
        bound=BoundKind.MEMORY,
        bound_ns=1.0,
        graph=graph,
        split=split,
    )


def make_corpus() -> list[CorpusTask]:
    single = [
        make_task(
            n, level=1, split=Split.TEST if n < 3 else Split.TRAIN, graph=f"one-{max(n, 2) // 2}"
        )
        for n in range(40)
    ]
    fused = [
        make_task(n, level=2, split=Split.TEST if n < 10 else Split.TRAIN, graph=f"two-{n}")
        for n in range(40)
    ]
    # The graph of the third task is held out by the corpus: its partner is, too.
    single[3] = msgspec.structs.replace(single[3], split=Split.TEST)
    return single + fused


def test_what_is_held_out_or_practised_is_never_taught() -> None:
    chosen = choose_tasks(make_corpus(), COUNTS)
    graphs = {split: {row.graph for row in chosen if row.split is split} for split in Split}
    known = find_known(chosen)
    new = {row.graph for row in chosen if row.split is Split.TEST and row.id not in known}
    assert len(known) == COUNTS.held_out_known
    assert not new & graphs[Split.TRAIN]
    assert not graphs[Split.VALIDATION] & (graphs[Split.TRAIN] | graphs[Split.TEST])
    sizes = {
        (split, level): sum(row.split is split and row.level == level for row in chosen)
        for split in Split
        for level in (1, 2)
    }
    assert sizes[Split.TEST, 1] == COUNTS.held_out_single + COUNTS.held_out_known
    assert sizes[Split.TEST, 2] == COUNTS.held_out_fused
    assert sizes[Split.VALIDATION, 1] == COUNTS.practice_single
    assert sizes[Split.VALIDATION, 2] == COUNTS.practice_fused
    assert sizes[Split.TRAIN, 2] == COUNTS.train_fused


def test_tasks_that_the_corpus_holds_out_stay_held_out() -> None:
    corpus = make_corpus()
    own = {row.id for row in corpus if row.split is Split.TEST}
    chosen = {row.id: row.split for row in choose_tasks(corpus, COUNTS)}
    assert all(chosen.get(name, Split.TEST) is Split.TEST for name in own)


def test_the_choice_does_not_depend_on_the_order_of_the_corpus() -> None:
    corpus = make_corpus()
    assert choose_tasks(corpus, COUNTS) == choose_tasks(corpus[::-1], COUNTS)


def make_tries(*, right: int, turns: int = 1) -> list[Try]:
    return [
        Try(
            task=f"t{n:02}",
            level=1,
            family="norm",
            stage=Stage.RIGHT if n < right else Stage.REFUSED,
            turns=turns,
        )
        for n in range(TASKS)
    ]


def make_record(seed: int, right: dict[str, int]) -> SeedRecord:
    tries = {
        f"{model}-{mode.value}": make_tries(
            right=right.get(model, 0), turns=1 + (mode is Mode.LOOP)
        )
        for model in MODELS
        for mode in Mode
    }
    level = [
        Group(step=1, task="t00", compiles=[1.0, 1.0], graded=[0.7, 0.8], right=[1.0, 1.0]),
        Group(step=1, task="t01", compiles=[0.0, 0.0], graded=[0.2, 0.2], right=[0.0, 0.0]),
        Group(step=1, task="t02", compiles=[0.0, 1.0], graded=[0.2, 0.5], right=[0.0, 0.0]),
    ]
    return SeedRecord(
        seed=seed,
        parameters=4_000_000,
        tries=tries,
        groups={"grpo-compiles": level, "grpo-graded": level},
        curves={SFT: {"loss": [(1, 2.0), (2, 1.0)]}},
        wall_s={"train sft": 60.0},
        cpu_s={"train sft": 50.0},
        memory_gib=1.5,
    )


def make_figures(right: dict[str, int]) -> Figures:
    distances = {f"t{n:02}": n / TASKS for n in range(TASKS)}
    return Figures([make_record(seed, right) for seed in (0, 1)], distances)


def test_a_share_is_the_mean_over_tasks_with_an_interval_around_it() -> None:
    share = make_figures({SFT: 10}).share(SFT, Mode.LOOP)
    assert share.value == pytest.approx(0.5)
    assert 0 < share.low < 0.5 < share.high < 1


def test_a_gain_is_taken_task_by_task() -> None:
    gained = lift(make_figures({SFT: 10}))
    assert gained.value == pytest.approx(0.5)
    same = make_figures({BASE: 10, SFT: 10})
    assert (lift(same).low, lift(same).high) == (0, 0)


def test_groups_that_are_level_by_one_reward_are_counted_by_the_other() -> None:
    found = count_groups(make_record(0, {}).groups["grpo-graded"])
    assert (found.groups, found.level_by_compiles, found.rescued) == (3, 2, 1)
    assert found.level_by_graded == 1


def write(right: dict[str, int]) -> str:
    figures = make_figures(right)
    parts = Parts(new=figures, known=figures, single=figures, fused=figures)
    return write_page(parts, counts=COUNTED, plan=ExperimentPlan(), second=None)


def test_an_answer_is_no_where_its_interval_holds_nothing() -> None:
    page = write({SFT: 10, "grpo-compiles": 10, "grpo-graded": 16})
    assert "lift the pass rate?** Yes: +50.0 points" in page
    assert "GRPO with `compiles` add something?** No" in page
    assert "GRPO with `graded` add something?** Yes" in page
    assert "50.0 % (" in page
    assert "missed" in page


def test_every_paragraph_with_a_figure_names_its_source() -> None:
    paragraphs = write({SFT: 10}).split("\n\n")
    bare = [p for p in paragraphs if " %" in p and "<!-- from" not in p]
    assert bare == []


def test_a_record_comes_back_and_makes_the_same_page_every_time(tmp_path: Path) -> None:
    records = tmp_path / "experiment"
    record = make_record(0, {SFT: 10})
    write_record(record, records / "seed-0.json")
    assert load_record(records / "seed-0.json") == record
    shared = Shared(
        plan=ExperimentPlan(),
        counts=COUNTED,
        distances={f"t{n:02}": 0.1 for n in range(TASKS)},
        known=["t01", "t02"],
    )
    (records / "shared.json").write_bytes(msgspec.json.encode(shared))
    fused = [
        msgspec.structs.replace(one, level=2, task=f"{one.task}-fused")
        for one in make_tries(right=3)
    ]
    both = {name: [*tries, *fused] for name, tries in record.tries.items()}
    write_record(msgspec.structs.replace(record, tries=both), records / "seed-0.json")
    pages = [make_page(records, tmp_path).read_text("utf-8") for _ in range(2)]
    assert pages[0] == pages[1]
    assert (tmp_path / "experiment.svg").read_text("utf-8").startswith("<?xml")


def test_another_plan_is_refused_in_a_folder_that_was_begun(tmp_path: Path) -> None:
    settle_plan(tmp_path, ExperimentPlan())
    settle_plan(tmp_path, ExperimentPlan())
    with pytest.raises(UsageError, match="begun with another plan"):
        settle_plan(tmp_path, ExperimentPlan(threads=2))


def test_a_smoothed_curve_is_shorter_by_its_window() -> None:
    assert smooth([1.0, 1.0, 1.0, 1.0, 1.0, 2.0]) == [1.0, 1.2]
    assert smooth([1.0]) == []


@pytest.mark.parametrize(("text", "said"), [(None, "is not there"), ("x = 1", "unknown field `x`")])
def test_plan_that_is_none_is_named(text: str | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_plan(path)
