"""Models and tokenizers on disk: loading them, adding adapters, and merging those.

Law: nothing is fetched from anywhere unless the config allows it; what is missing is named before
anything is loaded.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from nki_agent.base.errors import UsageError
from nki_agent.train.config import LoraPart, ModelPart
from nki_agent.train.guarding import loading, saving
from nki_agent.train.tokens import Template

CONFIG, ADAPTER_CONFIG = "config.json", "adapter_config.json"
ADAPTER_WEIGHTS: Final = ("adapter_model.safetensors", "adapter_model.bin")
OUTLINES: Final = {
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": "qwen3-coder-30b-a3b-instruct.json",
}
"""Shapes of models that can be planned for without their files."""


def require_model(part: ModelPart) -> None:
    """See that there is something to load.

    Raises:
        UsageError: no such model or adapter.
    """
    folder = Path(part.path)
    if folder.is_dir():
        if not (folder / CONFIG).is_file():
            is_adapter = (folder / ADAPTER_CONFIG).is_file()
            raise UsageError(
                f"{folder} holds no model: it has no {CONFIG}",
                hint=f"`nki-agent train merge {folder} OUT` makes a model of its adapter"
                if is_adapter
                else "",
            )
    elif not part.allow_download:
        raise UsageError(
            f"there is no folder {part.path}",
            hint="give a folder, or set `allow_download = true` in [model] to fetch it by name",
        )
    if part.adapter is not None:
        _require_adapter(Path(part.adapter))


def _require_adapter(folder: Path) -> None:
    # What is not there peft would look for on the hub.
    has_weights = any((folder / name).is_file() for name in ADAPTER_WEIGHTS)
    if not has_weights or not (folder / ADAPTER_CONFIG).is_file():
        missing = ADAPTER_CONFIG if has_weights else ADAPTER_WEIGHTS[0]
        raise UsageError(
            f"there is no adapter in {folder}: it has no {missing}",
            hint="give the folder that a training with [lora] has written, as `RUN/model`",
        )


def load_template(part: ModelPart) -> Template:
    """The tokenizer and how it writes dialogues.

    Raises:
        UsageError: it cannot be loaded, or writes no dialogues.
    """
    with loading(f"the tokenizer of {part.path}"):
        tokenizer = AutoTokenizer.from_pretrained(
            part.path, local_files_only=not part.allow_download
        )
    # Where a folder has none, transformers makes one that knows no word.
    if not tokenizer("x", add_special_tokens=False)["input_ids"]:
        raise UsageError(
            f"there is no tokenizer in {part.path}", hint="put the model's own beside its weights"
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return Template(tokenizer, name=part.path)


def find_dtype(folder: Path) -> Literal["bfloat16", "float32"]:
    """What the folder says that its weights are; float32, which holds any, for others.

    Raises:
        UsageError: it does not say what it is.
    """
    with loading(f"the {CONFIG} of {folder}"):
        config = AutoConfig.from_pretrained(str(folder), local_files_only=True)
    return "bfloat16" if config.dtype is torch.bfloat16 else "float32"


def load_model(part: ModelPart) -> Any:
    """The weights, with the adapter that the config names merged into them.

    Raises:
        UsageError: they cannot be loaded, or some are not there.
    """
    load: Any = AutoModelForCausalLM.from_pretrained
    with loading(f"the model in {part.path}"):
        model, found = load(
            part.path,
            dtype=getattr(torch, part.dtype),
            attn_implementation=part.attention,
            local_files_only=not part.allow_download,
            output_loading_info=True,
        )
    # transformers only warns of them, and begins with chance in their place.
    if missing := sorted(found["missing_keys"]):
        raise UsageError(f"the model in {part.path} lacks {len(missing)} weights, as {missing[0]}")
    # Balancing the experts is for pretraining; and a model saved with it on cannot generate.
    if hasattr(model.config, "output_router_logits"):
        model.config.output_router_logits = False
    return model if part.adapter is None else merge(model, Path(part.adapter))


def load_outline(part: ModelPart) -> Any:
    """The model without memory: every shape, no weight.

    Raises:
        UsageError: nothing is known of it.
    """
    if Path(part.path).is_dir():
        with loading(f"the {CONFIG} of {part.path}"):
            config = AutoConfig.from_pretrained(part.path, local_files_only=True)
    elif part.path in OUTLINES:
        text = files("nki_agent.train").joinpath("outlines", OUTLINES[part.path]).read_text("utf-8")
        raw = json.loads(text)
        config = AutoConfig.for_model(raw.pop("model_type"), **raw)
    else:
        raise UsageError(
            f"the shapes of {part.path} are not known",
            hint=f"give a folder with its {CONFIG}, or one of {', '.join(OUTLINES)}",
        )
    with torch.device("meta"):
        make: Any = AutoModelForCausalLM.from_config
        return make(config, dtype=getattr(torch, part.dtype))


def make_lora(part: LoraPart) -> LoraConfig:
    """The adapter in peft's words."""
    return LoraConfig(
        r=part.rank,
        lora_alpha=part.alpha,
        lora_dropout=part.dropout,
        target_modules=list(part.modules),
        target_parameters=list(part.expert_parameters) or None,
        task_type="CAUSAL_LM",
    )


def add_adapter(model: Any, part: LoraPart) -> Any:
    """The model with an adapter; its own weights are frozen.

    Raises:
        UsageError: the model has no such modules.
    """
    try:
        return get_peft_model(model, make_lora(part))
    except ValueError as error:
        raise UsageError(f"[lora] does not fit the model: {error}") from error


def merge(model: Any, adapter: Path) -> Any:
    """The model with the adapter's update added to its weights.

    Raises:
        UsageError: the adapter cannot be loaded, or is of another model.
    """
    with loading(f"the adapter in {adapter}", hint="is it of another model?"):
        return PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()


def require_vocabulary(model: Any, template: Template) -> None:
    """See that the model knows every token.

    Raises:
        UsageError: the tokenizer is of another model.
    """
    tokens, known = len(template.tokenizer), model.get_input_embeddings().num_embeddings
    if tokens > known:
        raise UsageError(
            f"the tokenizer has {tokens} tokens, and the model knows {known}",
            hint="put the model's own tokenizer beside its weights",
        )


def save(model: Any, template: Template, folder: Path) -> None:
    """Weights or adapter, and the tokenizer, as `hf/DIR` and servers load them.

    Raises:
        UsageError: the folder cannot be written to.
        MachineError: the disk is full.
    """
    with saving(f"the model to {folder}"):
        model.save_pretrained(folder)
        template.tokenizer.save_pretrained(folder)


def merge_folder(adapter: Path, out: Path) -> None:
    """Write the weights that an adapter names, with the adapter added, and its tokenizer.

    Raises:
        UsageError: there is no adapter, or its weights are not there.
    """
    _require_adapter(adapter)
    with loading(f"the adapter in {adapter}"):
        base = json.loads((adapter / ADAPTER_CONFIG).read_text("utf-8"))["base_model_name_or_path"]
    part = ModelPart(path=str(base), adapter=str(adapter))
    require_model(part)
    model, template = load_model(part), load_template(ModelPart(path=str(adapter)))
    require_vocabulary(model, template)
    save(model, template, out)
