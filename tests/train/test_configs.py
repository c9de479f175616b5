"""Configs: those that are shipped are valid and fit; what a file must not say is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nki_agent.base.errors import UsageError
from nki_agent.cli.train import app
from nki_agent.train.config import GrpoConfig, SftConfig, read_config, write_config
from nki_agent.train.groups import require_whole_groups
from nki_agent.train.reward import find_reward

CONFIGS = Path(__file__).parents[2] / "configs"
PAPER_TRAINABLE = 26_738_688


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("sft-*.toml")), ids=lambda p: p.stem)
def test_shipped_sft_configs_are_valid_and_survive_being_written(
    path: Path, tmp_path: Path
) -> None:
    config = read_config(path, SftConfig)
    again = tmp_path / "again.toml"
    again.write_text(write_config(config), encoding="utf-8")
    assert read_config(again, SftConfig) == config


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("grpo-*.toml")), ids=lambda p: p.stem)
def test_shipped_grpo_configs_are_valid_and_survive_being_written(
    path: Path, tmp_path: Path
) -> None:
    config = read_config(path, GrpoConfig)
    again = tmp_path / "again.toml"
    again.write_text(write_config(config), encoding="utf-8")
    assert read_config(again, GrpoConfig) == config
    assert require_whole_groups(config) > 0
    assert callable(find_reward(config.reward))


def test_dry_run_of_the_papers_model_counts_the_papers_parameters_and_fits() -> None:
    done = CliRunner().invoke(
        app, ["sft", str(CONFIGS / "sft-qwen3-coder-30b.toml"), "--dry-run", "--json"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["trainable"] == PAPER_TRAINABLE
    assert found["fits"]
    assert found["total_gib"] == pytest.approx(sum(found["parts_gib"].values()))


def test_dry_run_fails_where_a_gpu_has_too_little(tmp_path: Path) -> None:
    text = (CONFIGS / "sft-qwen3-coder-30b.toml").read_text("utf-8")
    path = tmp_path / "small.toml"
    path.write_text(text.replace("gpu_memory_gib = 80.0", "gpu_memory_gib = 16.0"), "utf-8")
    done = CliRunner().invoke(app, ["sft", str(path), "--dry-run"])
    assert done.exit_code == 1
    assert "a GPU has 16 GiB" in done.stderr


def test_dry_run_says_that_its_data_is_not_there_yet(tmp_path: Path) -> None:
    text = (CONFIGS / "sft-qwen3-coder-30b.toml").read_text("utf-8")
    path = tmp_path / "here.toml"
    for data, is_missing in (("not-there", True), (str(tmp_path), False)):
        path.write_text(text.replace('path = "corpus"', f'path = "{data}"'), "utf-8")
        done = CliRunner().invoke(app, ["sft", str(path), "--dry-run"])
        assert done.exit_code == 0
        assert ("not-there, is not there yet" in done.stderr) == is_missing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\npath = 1\n", "Expected `str`, got `int`"),
        ("colour = 1\n[model]\npath = 'm'\n", "there is no key `colour`"),
        ("[model]\npath = 'm'\n[lora]\nrang = 4\n", r"\[lora\] has no key `rang`[\s\S]*`rank`"),
        ("[model\n", "is no TOML"),
        ("batch = 0\n[model]\npath = 'm'\n", r">= 1 - at `\$.batch`"),
        ("epochs = nan\n[model]\npath = 'm'\n", r"epochs"),
        ("[model]\npath = 'm'\n[evaluate.generation]\nturn = 4\n", r"no key `turn`[\s\S]*`turns`"),
    ],
)
def test_what_a_config_must_not_say_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_config(path, SftConfig)
