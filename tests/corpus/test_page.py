"""Card and page say the figures of the rows, and nothing that a row says can harm the page."""

from __future__ import annotations

from nki_agent.corpus.card import WHY, write_card
from nki_agent.corpus.freeze import Recipe
from nki_agent.corpus.page import draw_counts, write_stats_page
from nki_agent.corpus.record import Family, Reason, Rejection
from nki_agent.corpus.stats import count_tasks
from tests.corpus.test_freeze import TASKS

RECIPE = Recipe(root=7, candidates=10, tasks=3, grammar_sha256="g", against=("abc",))
AWAY = Rejection(
    id="c-norm-x-000001",
    family=Family.NORM,
    pattern="x",
    reason=Reason.NOISY,
    detail="<script>a | b</script>",
)


def card() -> str:
    stats = count_tasks(TASKS, [AWAY])
    return write_card(stats, RECIPE, root_sha256="f00", suffix="parquet", distance={"median": 0.25})


def test_card_begins_with_what_datasets_reads_and_leaves_out_empty_splits() -> None:
    head = card().split("---\n")[1]
    assert "license: apache-2.0" in head
    assert "  - split: train\n    path: data/train-*.parquet\n" in head
    assert "validation" not in head


def test_card_says_how_it_was_made_and_what_was_turned_away() -> None:
    text = card()
    assert "nki-agent data build --candidates 10 --tasks 3 --seed 7" in text
    assert "the folder with the hash `abc`" in text
    assert "| noisy | 1 |" in text
    assert "a \\| b" in text
    assert "median 0.25" in text


def test_every_reason_has_a_meaning() -> None:
    assert set(WHY) == set(Reason)


def test_page_escapes_what_rows_say_and_loads_nothing() -> None:
    page = write_stats_page(count_tasks(TASKS, [AWAY]), title="A <b> corpus")
    assert "<script" not in page
    assert "A &lt;b&gt; corpus" in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("<svg") == page.count("</svg>") >= 11


def test_name_that_is_cut_stays_whole_markup() -> None:
    drawn = draw_counts({"a" * 20 + "<&>" * 4: 1}, title="Names")
    assert f">{'a' * 20}&lt;&amp;…</text>" in drawn
