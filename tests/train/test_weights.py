"""Weights are measured as they were saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from nki_agent.train.config import DataPart, ModelPart, SftConfig
from nki_agent.train.sft import count_steps
from nki_agent.train.weights import find_dtype, load_model
from tests.train.tiny import write_model


@pytest.mark.parametrize(
    ("said", "dtype"),
    [
        ("bfloat16", torch.bfloat16),
        ("float32", torch.float32),
        ("float16", torch.float32),
        (None, torch.float32),
    ],
)
def test_model_is_loaded_in_the_dtype_that_holds_its_weights(
    said: str | None, dtype: torch.dtype, tmp_path: Path
) -> None:
    folder = write_model(tmp_path / "model", ["a text"])
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8")) | {"dtype": said}
    path.write_text(json.dumps(config), "utf-8")
    model = load_model(ModelPart(path=str(folder), dtype=find_dtype(folder)))
    assert model.dtype is dtype


def test_processes_on_the_cpu_share_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SftConfig(
        model=ModelPart(path="m"), data=DataPart(path="d"), batch=4, accumulate=2, epochs=3.0
    )
    assert count_steps(config, num_rows=64) == 24
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert count_steps(config, num_rows=64) == 12
