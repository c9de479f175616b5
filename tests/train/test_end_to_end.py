"""SFT and GRPO through the real commands: a model that knew nothing writes right kernels."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from nki_agent.base.clock import SystemClock
from tests.train.world import World, make_world

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("train")]

SFT = """
batch = 4
steps = {steps}
save_steps = {save_steps}
log_steps = 20
[model]
path = "{world}/base"
dtype = "float32"
[data]
path = "{world}/dialogues.jsonl"
[optimizer]
learning_rate = 6e-3
schedule = "constant_with_warmup"
[hardware]
threads = 1
"""
SHORT = SFT.replace("[data]", '[data]\nkinds = ["single"]')
GRPO = """
tasks = "{world}/corpus"
attempts = 4
tasks_per_step = 2
batch = 8
steps = 2
save_steps = 1
judge_workers = 1
[model]
path = "{world}/sft/model"
dtype = "float32"
[optimizer]
learning_rate = 1e-4
[hardware]
threads = 1
[curriculum]
levels = [1]
open_at = [0.0]
[groups]
oversample = 2
[generation]
prompt = "plain"
tools = "verify"
turns = 3
reply_tokens = 250
completion_tokens = 700
"""
WAIT_NS = 300 * 10**9


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nki_agent", "train", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def train(*arguments: str) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        command(*arguments, "--json"),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def write(world: World, name: str, text: str, **values: object) -> str:
    path = world.folder / name
    path.write_text(text.format(world=world.folder, **values), encoding="utf-8")
    return str(path)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_sft_then_grpo_write_right_kernels_by_tool_calls(world: World) -> None:
    out = world.folder / "sft"
    config = write(world, "sft.toml", SFT, steps=120, save_steps=120)
    learned, _ = train("sft", config, "--out", str(out))
    assert learned["final"]["loss"] < 0.1
    assert (out / "curves.svg").read_text("utf-8").startswith("<?xml")

    out = world.folder / "grpo"
    config = write(world, "grpo.toml", GRPO)
    improved, _ = train("grpo", config, "--out", str(out))
    attempts = read_lines(out / "attempts.jsonl")
    assert {line["step"] for line in attempts} == {1, 2}
    assert sum(line["picked"] for line in attempts) == 16
    assert any(line["stage"] == "right" and line["turns"] > 1 for line in attempts)
    assert improved["final"]["right"] > 0
    base = load_file(world.folder / "sft" / "model" / "model.safetensors")
    moved = load_file(out / "model" / "model.safetensors")
    is_level = len({round(line["rewards"]["graded"], 9) for line in attempts}) == 1
    assert any((base[name] != moved[name]).any() for name in base) or is_level


def test_a_killed_sft_goes_on_and_gives_what_it_would_have_given(world: World) -> None:
    config = write(world, "short.toml", SHORT, steps=12, save_steps=4)
    whole = world.folder / "whole"
    train("sft", config, "--out", str(whole))

    killed = world.folder / "killed"
    process = subprocess.Popen(
        command("sft", config, "--out", str(killed)), env=environment(), stderr=subprocess.DEVNULL
    )
    wait_for(killed / "checkpoints" / "checkpoint-4" / "trainer_state.json", process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "summary.json").exists()
    _, said = train("sft", config, "--out", str(killed))
    assert "going on from checkpoint-" in said

    ours = load_file(killed / "model" / "model.safetensors")
    theirs = load_file(whole / "model" / "model.safetensors")
    assert all((ours[name] == theirs[name]).all() for name in theirs)
    steps = [line["step"] for line in read_lines(killed / "measures.jsonl") if "loss" in line]
    assert steps == sorted(set(steps))
    _, said = train("sft", config, "--out", str(killed))
    assert "is done already" in said


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the file is there."""
    clock = SystemClock()
    end_ns = clock.monotonic_ns() + WAIT_NS
    while not path.exists():
        assert process.poll() is None, "it ended before its first checkpoint"
        assert clock.monotonic_ns() < end_ns, f"no {path}"
        threading.Event().wait(0.02)


def refuse(*arguments: str) -> str:
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_what_cannot_be_trained_is_named_before_anything_is_made(world: World) -> None:
    text = SFT.format(world=world.folder, steps=1, save_steps=1)
    out = str(world.folder / "never")
    (world.folder / "broken.jsonl").write_text('{"id": "a", "messages": [{}]}\n', "utf-8")
    wrong = {
        "no key `step`": text.replace("steps = 1", "step = 1", 1),
        "there is no folder": text.replace("/base", "/nowhere"),
        "broken.jsonl:1: message 1 has no role": text.replace("dialogues.jsonl", "broken.jsonl"),
        "there is no adapter": text.replace('dtype = "float32"', f'adapter = "{out}"'),
    }
    for number, (message, changed) in enumerate(wrong.items()):
        config = write(world, f"wrong{number}.toml", changed.replace("{", "{{"))
        assert message in refuse("sft", config, "--out", out + str(number))
