"""What training refuses, and what it says: the file or key, exit code 2, and nothing half made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from nki_agent.base.errors import MachineError, UsageError
from nki_agent.cli.train import app
from nki_agent.train.arguments import guard_memory
from nki_agent.train.config import DataPart, LoraPart, ModelPart
from nki_agent.train.dialogues import read_dialogues, tokenize_all
from nki_agent.train.folder import TrainingFolder, alone_in
from nki_agent.train.tokens import Template
from nki_agent.train.weights import add_adapter, load_model, load_template, require_model
from tests.cli.test_full_disk import run_on_disk
from tests.train.tiny import make_tokenizer
from tests.train.world import World, make_world

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("train")]

SFT = """
steps = 1
save_steps = 1
[model]
path = "{model}"
dtype = "float32"
[data]
path = "{data}"
kinds = ["single"]
[hardware]
threads = 1
"""
GRPO = """
tasks = "{corpus}"
attempts = 2
tasks_per_step = 2
batch = 4
steps = 1
[model]
path = "{model}"
"""
WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def adapter(world: World) -> Path:
    folder = world.folder / "adapter"
    part = ModelPart(path=str(world.base), dtype="float32")
    model = add_adapter(load_model(part), LoraPart(rank=2))
    model.save_pretrained(folder)
    load_template(part).tokenizer.save_pretrained(folder)
    return folder


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def sft(folder: Path, text: str, **values: object) -> Result:
    config = folder / "c.toml"
    config.write_text(text.format(**values), encoding="utf-8")
    return call("sft", config, "--out", folder / "run")


def require_refused(done: Result, *words: str) -> None:
    assert done.exit_code == 2, done.output
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr


def drop_weight(model: Path) -> None:
    weights = load_file(model / WEIGHTS)
    del weights["lm_head.weight"]
    save_file(weights, model / WEIGHTS, metadata={"format": "pt"})


def cut_weights(model: Path) -> None:
    data = (model / WEIGHTS).read_bytes()
    (model / WEIGHTS).write_bytes(data[: len(data) // 2])


def lessen_vocabulary(model: Path) -> None:
    config = json.loads((model / "config.json").read_text("utf-8"))
    words = config["vocab_size"] = config["vocab_size"] - 1
    (model / "config.json").write_text(json.dumps(config), "utf-8")
    weights = load_file(model / WEIGHTS)
    for name in ("lm_head.weight", "model.embed_tokens.weight"):
        weights[name] = weights[name][:words].clone()
    save_file(weights, model / WEIGHTS, metadata={"format": "pt"})


BROKEN: dict[str, tuple[Any, str]] = {
    "config is no JSON": (lambda m: (m / "config.json").write_text("{", "utf-8"), "config.json"),
    "config is a list": (lambda m: (m / "config.json").write_text("[]", "utf-8"), "be loaded"),
    "no weights": (lambda m: (m / WEIGHTS).unlink(), "cannot be loaded"),
    "weights cut off": (cut_weights, "cannot be loaded"),
    "a weight missing": (drop_weight, "lacks 1 weights, as lm_head.weight"),
    "no tokenizer": (
        lambda m: [p.unlink() for p in m.glob("tokenizer*")],
        "there is no tokenizer in",
    ),
    "no template": (lambda m: (m / "chat_template.jinja").unlink(), "has no chat template"),
    "a broken template": (
        lambda m: (m / "chat_template.jinja").write_text("{% for %}", "utf-8"),
        "cannot write the dialogue",
    ),
    "too few embeddings": (lessen_vocabulary, "tokens, and the model knows"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_model_is_named(name: str, world: World, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(world.base, model)
    spoil, words = BROKEN[name]
    spoil(model)
    require_refused(sft(tmp_path, SFT, model=model, data=world.dialogues), words)


def test_what_was_refused_may_be_put_right_and_tried_again_in_its_place(
    world: World, tmp_path: Path
) -> None:
    nowhere = tmp_path / "none.jsonl"
    require_refused(sft(tmp_path, SFT, model=world.base, data=nowhere), "no dialogues in")
    done = sft(tmp_path, SFT, model=world.base, data=world.dialogues)
    assert done.exit_code == 0, done.output
    require_refused(
        sft(tmp_path, SFT.replace("threads = 1", "threads = 2"), model=world.base, data=nowhere),
        "holds a training with another config",
    )


def test_an_adapter_without_weights_is_looked_for_nowhere_else(
    adapter: Path, world: World, tmp_path: Path
) -> None:
    empty = tmp_path / "adapter"
    shutil.copytree(adapter, empty)
    (empty / "adapter_model.safetensors").unlink()
    part = ModelPart(path=str(world.base), adapter=str(empty))
    with pytest.raises(UsageError, match=r"it has no adapter_model\.safetensors"):
        require_model(part)
    require_refused(call("merge", empty, tmp_path / "out"), "it has no adapter_model.safetensors")
    assert not (tmp_path / "out").exists()


def test_an_adapter_of_another_model_is_refused(
    adapter: Path, world: World, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(adapter, other)
    path = other / "adapter_model.safetensors"
    wide = {name: torch.cat((w, w)) for name, w in load_file(path).items()}
    save_file(wide, path, metadata={"format": "pt"})
    part = ModelPart(path=str(world.base), adapter=str(other), dtype="float32")
    with pytest.raises(UsageError, match="is it of another model"):
        load_model(part)


def test_merge_writes_only_where_nothing_is(adapter: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("kept", "utf-8")
    require_refused(call("merge", adapter, out), "out")
    assert out.read_text("utf-8") == "kept"
    out.unlink()
    (adapter.parent / "broken").mkdir()
    broken = adapter.parent / "broken"
    shutil.copytree(adapter, broken, dirs_exist_ok=True)
    (broken / "adapter_config.json").write_text("{}", "utf-8")
    require_refused(call("merge", broken, out), "the adapter in")
    assert not out.exists()
    assert call("merge", adapter, out).exit_code == 0
    assert (out / WEIGHTS).is_file()
    require_refused(call("merge", adapter, out), "is not empty")


def test_an_evaluation_is_refused_before_it_has_cost_anything(
    adapter: Path, world: World, tmp_path: Path
) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("{}\n", "utf-8")
    start = ("evaluate", world.base, world.corpus, "--split", "train", "--out")
    require_refused(call(*start, there), "is there already")
    require_refused(call(*start, tmp_path / "no" / "out.jsonl"), "No such file or directory")
    require_refused(call("evaluate", adapter, world.corpus), "has no config.json", "train merge")
    assert there.read_text("utf-8") == "{}\n"


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("[generation]\ntemperature = 0.0\n", "`generation.temperature` 0"),
        ('[generation]\nvllm = "colocate"\n', "vllm is not installed"),
        ("[hardware]\ngpus = 1\n", "the config is for 1 GPU"),
        ('[links]\ncompression = "top-k"\n[hardware]\nshard = "fsdp2"\n', "[links] cannot send"),
    ],
)
def test_what_grpo_cannot_do_here_is_said_first(
    extra: str, words: str, world: World, tmp_path: Path
) -> None:
    config = tmp_path / "c.toml"
    text = GRPO.format(corpus=world.corpus, model=world.base) + extra
    config.write_text(text, encoding="utf-8")
    require_refused(call("grpo", config, "--out", tmp_path / "run"), words)
    assert not (tmp_path / "run").exists()


def write_dialogues(folder: Path, *rows: dict[str, Any]) -> DataPart:
    path = folder / "rows.jsonl"
    path.write_bytes(b"\n".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return DataPart(path=str(path))


ASKED = {"role": "user", "content": "x"}
ANSWERED = {"role": "assistant", "content": "y"}


def test_empty_lines_between_dialogues_count_for_nothing(tmp_path: Path) -> None:
    part = write_dialogues(tmp_path, *({"id": n, "messages": [ASKED, ANSWERED]} for n in "abc"))
    assert len(read_dialogues(part, split="train", limit=None, seed=0).rows) == 3


def test_marks_that_are_not_as_many_as_messages_are_refused(tmp_path: Path) -> None:
    row = {"id": "a", "messages": [ASKED, ANSWERED], "trained": [True]}
    part = write_dialogues(tmp_path, row)
    with pytest.raises(UsageError, match=r"rows\.jsonl:1: `trained` has 1 marks for 2 messages"):
        read_dialogues(part, split="train", limit=None, seed=0)


def test_a_dialogue_that_a_template_refuses_is_named(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(["x y"])
    tokenizer.chat_template = "{{ raise_exception('no such role') }}"
    part = write_dialogues(tmp_path, {"id": "odd", "messages": [ASKED, ANSWERED]})
    rows = read_dialogues(part, split="train", limit=None, seed=0)
    with pytest.raises(UsageError, match="cannot write the dialogue `odd`: no such role"):
        list(tokenize_all(rows, Template(tokenizer, name="m"), max_tokens=64))


def test_a_training_folder_is_for_one_process(tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path)
    with alone_in(folder), pytest.raises(UsageError, match="another process trains in"):
        alone_in(folder).__enter__()
    (tmp_path / ".lock").unlink()
    (tmp_path / ".lock").mkdir()
    with pytest.raises(UsageError, match="cannot write to the run's folder"):
        alone_in(folder).__enter__()


def test_a_broken_line_of_measures_is_named_and_a_torn_last_one_left_out(tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path)
    folder.add_measures(1, {"loss": 1.0})
    with folder.measures.open("ab") as file:
        file.write(b'{"step": 2, "lo')
    folder.forget_after(1)
    assert folder.read_measures() == [{"step": 1, "loss": 1.0}]
    folder.measures.write_text("nonsense\n", "utf-8")
    with pytest.raises(UsageError, match=r"measures\.jsonl is broken"):
        folder.forget_after(1)


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [8, 600, 1600, 2400])
def test_a_full_disk_is_the_machines_fault_whatever_is_written(
    kilobytes: int, world: World, tmp_path: Path
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(SFT.format(model=world.base, data=world.dialogues), encoding="utf-8")
    ended = run_on_disk(
        tmp_path, kilobytes, "train", "sft", config, "--out", tmp_path / "disk" / "run"
    )
    assert ended.code == 4, ended.err
    assert "cannot write" in ended.err
    assert "bug of nki-agent" not in ended.err
    assert "Traceback" not in ended.err
    assert ended.files("summary.json") == []


def test_too_little_memory_is_the_machines_fault_with_a_remedy() -> None:
    said = r"memory does not suffice.*\n.*take less"
    with pytest.raises(MachineError, match=said), guard_memory("take less"):
        torch.empty(1 << 60)
