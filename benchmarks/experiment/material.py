"""What all seeds share: chosen tasks, their solutions, dialogues, a tokenizer, distances.

Law: the tokenizer and the dialogues are made of training tasks alone; each file is written whole or
not at all, and one that is there is not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from transformers import AutoTokenizer, Qwen3MoeConfig, Qwen3MoeForCausalLM

from benchmarks.experiment.choosing import SINGLE as ONE_OPERATOR
from benchmarks.experiment.choosing import Counts, choose_tasks, find_known, vary_tasks, write_tasks
from benchmarks.experiment.plan import DataPlan, ExperimentPlan, ModelPlan
from nki_agent.base.jsonl import encode_lines, read_lines
from nki_agent.base.writing import write_whole
from nki_agent.corpus.canonical import canonical_graph
from nki_agent.corpus.distances import measure_distances
from nki_agent.corpus.record import CorpusTask, Split
from nki_agent.corpus.stored import SOLUTIONS, TASKS, UNSOLVED, read_solutions, read_tasks
from nki_agent.corpus.trajectories import find_first
from nki_agent.farm.executor import Executor
from nki_agent.train.byte_pairs import make_tokenizer
from nki_agent.train.renumbering import is_renumbered
from nki_agent.train.reranking import is_reranked
from nki_agent.train.shelf import Shelf
from nki_agent.train.short_rows import (
    SINGLE,
    ShortRow,
    ShortTask,
    fence,
    list_short,
    make_rows,
    vary_sizes,
)
from nki_agent.train.tokens import Template

CONTEXT: Final = 4096
"""Positions of the model: more than any loop of the experiment has."""


@dataclass(frozen=True, slots=True)
class Material:
    """The files that all seeds share."""

    path: Path

    @property
    def corpus(self) -> Path:
        """Tasks and solutions."""
        return self.path / "corpus"

    @property
    def tokenizer(self) -> Path:
        """Made of training texts."""
        return self.path / "tokenizer"

    @property
    def dialogues(self) -> Path:
        """Rows for SFT."""
        return self.path / "dialogues.jsonl"

    @property
    def distances(self) -> Path:
        """Of each held-out task to the nearest that trains."""
        return self.path / "distances.json"

    @property
    def known(self) -> Path:
        """Ids of the held-out tasks whose graph is taught."""
        return self.path / "known.json"

    @property
    def counts(self) -> Path:
        """What there is of everything."""
        return self.path / "counts.json"


def choose_from(corpus: Path, material: Material, plan: DataPlan) -> None:
    """Write the experiment's tasks, with what the corpus knows of their solutions."""
    if (material.corpus / TASKS).exists():
        return
    counts = Counts(
        train_fused=plan.train_fused,
        practice_single=plan.practice_single,
        practice_fused=plan.practice_fused,
        held_out_single=plan.held_out_single,
        held_out_known=plan.held_out_known,
        held_out_fused=plan.held_out_fused,
    )
    rows = choose_tasks(read_tasks(corpus).good, counts)
    material.corpus.mkdir(parents=True, exist_ok=True)
    ids = {row.id for row in rows}
    for name in (SOLUTIONS, UNSOLVED):
        if (corpus / name).exists():
            kept = [line for line in read_lines(corpus / name) if line["task"] in ids]
            write_whole(material.corpus / name, encode_lines(kept))
    others = vary_tasks(
        rows, single=plan.ranks_single, fused=plan.ranks_fused, numbers=plan.numbers_single
    )
    write_tasks([*rows, *others], material.corpus)


def make_material(
    material: Material, plan: DataPlan, *, executor: Executor, say: Callable[[str], object]
) -> None:
    """Tokenizer, dialogues and distances of a solved corpus."""
    if material.counts.exists():
        return
    rows = read_tasks(material.corpus).good
    shelf = Shelf(material.corpus, folder=material.path / "tasks")
    solutions = find_first(read_solutions(material.corpus, rows).good)
    train = [row for row in rows if row.split is Split.TRAIN]
    say("the short form of every solution")
    tasks = list(list_short(shelf, solutions, train))
    tokenizer = _load_tokenizer(material, tasks, plan)
    short = [task for task in tasks if fits(task, tokenizer, plan.tokens_max)]
    say(f"{len(short)} of {len(tasks)} solved training tasks are short; judging their kernels")
    template = Template(tokenizer, name="the experiment")
    made = [
        row
        for found in make_rows(short, shelf, executor=executor, repairs=plan.repairs, seed=0)
        for row in found
        if is_taught(row, template, plan)
    ]
    by_id = {row.id: row for row in train}
    shown = list(vary_all(made, by_id, plan))
    write_whole(material.dialogues, encode_lines(shown))
    say("distances of the held-out tasks")
    taught = {row.id.rpartition("/")[0] for row in made}
    graphs = {row.id: canonical_graph(row.source) for row in rows if _counts(row, taught)}
    distances = measure_distances([row for row in rows if row.id in graphs], graphs)
    write_whole(material.distances, msgspec.json.format(msgspec.json.encode(distances), indent=1))
    known = find_known(row for row in rows if _counts(row, taught))
    write_whole(material.known, msgspec.json.encode(sorted(known)))
    counts = {
        "training tasks": len(train),
        "training tasks with one operator": sum(row.level == ONE_OPERATOR for row in train),
        "solved training tasks": len(tasks),
        "short training tasks": len(short),
        "taught tasks": len(taught),
        "taught tasks with one operator": sum(
            r.id in taught and r.level == ONE_OPERATOR for r in train
        ),
        "taught tasks at another rank": sum(is_reranked(name) for name in taught),
        "taught tasks with other numbers": sum(is_renumbered(name) for name in taught),
        "dialogues": len(shown),
        "repairs": sum(row.kind != SINGLE for row in made),
        "practice tasks": sum(row.split is Split.VALIDATION for row in rows),
        "held-out tasks of taught graphs": len(known),
        "held-out tasks": sum(row.split is Split.TEST for row in rows),
        "held-out tasks with one operator": sum(
            row.level == ONE_OPERATOR for row in rows if row.split is Split.TEST
        ),
        "held-out tasks solved by the author": sum(
            row.id in solutions for row in rows if row.split is Split.TEST
        ),
        "vocabulary": len(tokenizer),
    }
    shelf.close()
    write_whole(material.counts, msgspec.json.format(msgspec.json.encode(counts), indent=1))


def fits(task: ShortTask, tokenizer: Any, tokens_max: int) -> bool:
    """Whether prompt and kernel are short in this tokenizer's tokens."""
    system, user, _ = task.texts
    return all(
        len(tokenizer(text, add_special_tokens=False)["input_ids"]) <= tokens_max
        for text in (system + user, task.kernel)
    )


def vary_all(
    made: Sequence[ShortRow], by_id: Mapping[str, CorpusTask], plan: DataPlan
) -> Iterator[ShortRow]:
    """Every dialogue, single shots at several sizes."""
    for row in made:
        if row.kind == SINGLE:
            task = by_id[row.id.rpartition("/")[0]]
            times = plan.sizes_single if row.level == ONE_OPERATOR else plan.sizes_fused
            yield from vary_sizes(row, task, times=times, seed=0)
        else:
            yield row


def is_taught(row: ShortRow, template: Template, plan: DataPlan) -> bool:
    """Whether a dialogue is short enough to be worth its time."""
    if row.kind != SINGLE:
        limit = plan.repair_tokens_max
    else:
        limit = plan.single_tokens_max if row.level == ONE_OPERATOR else plan.fused_tokens_max
    return len(template.tokenize(row.messages, trained=()).ids) <= limit


def write_model(folder: Path, material: Material, plan: ExperimentPlan, *, seed: int) -> None:
    """A model that knows nothing, with the tokenizer beside it."""
    if (folder / "config.json").exists():
        return
    tokenizer = AutoTokenizer.from_pretrained(material.tokenizer, local_files_only=True)
    torch.manual_seed(seed)
    make_weights: Any = Qwen3MoeForCausalLM
    make_weights(make_config(plan.model, tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def make_config(plan: ModelPlan, tokenizer: Any) -> Any:
    """The plan's shapes in transformers' words."""
    make: Any = Qwen3MoeConfig
    return make(
        vocab_size=len(tokenizer),
        hidden_size=plan.hidden,
        intermediate_size=2 * plan.hidden,
        moe_intermediate_size=plan.expert_hidden,
        num_hidden_layers=plan.layers,
        num_attention_heads=plan.query_heads,
        num_key_value_heads=plan.key_heads,
        head_dim=plan.head,
        num_experts=plan.experts,
        num_experts_per_tok=plan.experts_per_token,
        norm_topk_prob=True,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def _load_tokenizer(material: Material, tasks: Sequence[ShortTask], plan: DataPlan) -> Any:
    if not (material.tokenizer / "tokenizer.json").exists():
        fixed = ("system\n", "user\n", "assistant\n", tasks[0].prompt.system)
        made = make_tokenizer(
            chain((fence(task.kernel) for task in tasks), fixed * len(tasks)),
            words=(task.prompt.user for task in tasks),
            vocabulary=plan.vocabulary,
        )
        made.save_pretrained(material.tokenizer)
    return AutoTokenizer.from_pretrained(material.tokenizer, local_files_only=True)


def _counts(row: CorpusTask, taught: set[str]) -> bool:
    return row.split is Split.TEST or row.id in taught
