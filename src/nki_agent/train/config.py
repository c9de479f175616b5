"""What a training is asked to do: one TOML file, every field with its unit and reason.

Law: a key that does not exist is refused, with the nearest that does; the config with every default
filled in is written beside the results, and running that file does the same again.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from nki_agent.agent.ablation import PromptKind
from nki_agent.agent.episode import Mode
from nki_agent.base.bounded import UnreadableError, read_text
from nki_agent.base.errors import UsageError
from nki_agent.chip.spec import Target

_FIELD = re.compile(r"unknown field `(?P<name>[^`]*)`(?: - at `\$\.?(?P<path>[^`]*)`)?")
Config = TypeVar("Config", "SftConfig", "GrpoConfig")

Count = Annotated[int, Meta(ge=1)]
Seed = Annotated[int, Meta(ge=0, lt=1 << 32)]
Share = Annotated[float, Meta(ge=0, le=1)]
Decay = Annotated[float, Meta(ge=0, lt=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a config."""


class ModelPart(_Part, frozen=True, kw_only=True):
    """Which weights are trained."""

    path: str
    """A folder with weights, config and tokenizer; or a model's name on the hub."""
    adapter: str | None = None
    """A folder with an adapter that the weights are merged with before anything else."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    allow_download: bool = False
    """Whether a name that is no folder may be fetched from the hub."""


class LoraPart(_Part, frozen=True, kw_only=True):
    """Low-rank adapters beside frozen weights."""

    rank: Count = 32
    """The paper's: on q, k, v and o of its 48 layers this trains 26,738,688 parameters."""
    alpha: Count = 64
    """Scale of the update is alpha / rank; 2 is the usual choice, the paper names none."""
    dropout: Share = 0.0
    modules: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    """Attention only: the experts are 3-D tensors that servers can't load adapters for."""
    expert_parameters: tuple[str, ...] = ()
    """Names of 3-D expert tensors to adapt too; merge such an adapter before serving it."""


class DataPart(_Part, frozen=True, kw_only=True):
    """Dialogues, one JSON object a line, with `messages`, `tools` and `split`."""

    path: str
    """A file, or a folder as `data trajectories` writes it."""
    kinds: tuple[str, ...] = ()
    """Only rows of these kinds; all where empty."""
    split: str = "train"
    max_tokens: Count = 8192
    """Longer dialogues are left out and counted, never cut: a cut kernel teaches cut kernels."""
    limit: Count | None = None
    """Rows, the first of a shuffled order; all where it is not given."""


class OptimizerPart(_Part, frozen=True, kw_only=True):
    """AdamW and its schedule."""

    learning_rate: Positive = 1e-4
    """Peak. The usual size for LoRA; full training takes a tenth."""
    schedule: Literal["cosine", "linear", "constant", "constant_with_warmup"] = "cosine"
    warmup_share: Share = 0.03
    """Of all steps, in which the rate climbs."""
    weight_decay: NotNegative = 0.0
    betas: tuple[Decay, Decay] = (0.9, 0.95)
    max_grad_norm: NotNegative = 1.0
    """Longer gradients are shortened to it; 0 never shortens."""


class HardwarePart(_Part, frozen=True, kw_only=True):
    """Where it runs."""

    gpus: Annotated[int, Meta(ge=0)] = 0
    """0 trains on the CPU."""
    gpu_memory_gib: Positive = 80.0
    """Of each; `--dry-run` fails where the estimate is above it."""
    shard: Literal["fsdp2", "none"] = "none"
    """How weights, gradients and optimizer states are spread over GPUs."""
    gradient_checkpointing: bool = False
    threads: Count | None = None
    """Of PyTorch on the CPU; its own choice where not given."""


class Compression(StrEnum):
    """What is sent for a gradient between processes."""

    NONE = "none"
    BF16 = "bf16"
    TOP_K = "top-k"
    POWER_SGD = "power-sgd"
    LOCAL_SGD = "local-sgd"


class LinksPart(_Part, frozen=True, kw_only=True):
    """Slow links between the processes of one training, without FSDP."""

    compression: Compression = Compression.NONE
    time_share: Positive = 0.5
    """`top-k`: time for sending, as a share of a step's computing; how much is sent follows it."""
    ratio_min: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """`top-k`: the least share of elements that is sent, however slow a link is. Less is faster and
    learns less from a step; `python -m benchmarks.links` measures both."""
    warmup_steps: Annotated[int, Meta(ge=0)] = 100
    """`top-k`: in which the least share falls from all to `ratio_min`: what comes late in the first
    steps costs the most."""
    agree_every: Count = 4
    """`top-k`: steps after which the processes tell each other how much they send."""
    rank: Count = 4
    """`power-sgd`: of the matrices that stand for a gradient."""
    every: Count = 8
    """`local-sgd`: steps that each process makes alone before weights are averaged."""


class GenerationPart(_Part, frozen=True, kw_only=True):
    """How kernels are drawn."""

    temperature: NotNegative = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    reply_tokens: Count = 4096
    """Of one reply."""
    completion_tokens: Count = 16_384
    """Of all replies of an attempt and what tools answer between them."""
    turns: Count = 10
    """Of the loop; a single shot has one."""
    mode: Mode = Mode.LOOP
    prompt: PromptKind = PromptKind.RANK_AWARE
    tools: str = "all"
    """As `--tools` of the commands takes them."""
    vllm: Literal["none", "colocate", "server"] = "none"
    """GRPO only."""
    vllm_memory_share: Share = 0.35
    vllm_tensor_parallel: Count = 1


class EvaluatePart(_Part, frozen=True, kw_only=True):
    """What is tried as it trains."""

    every_steps: Annotated[int, Meta(ge=0)] = 0
    """0: only the loss on held-out dialogues, at the end."""
    split: str = "validation"
    """Of dialogues, for the loss of SFT; of tasks, for kernels."""
    dialogues: Count = 256
    """Of the split, for the loss."""
    corpus: str | None = None
    """A corpus whose tasks kernels are written for; none if not given."""
    tasks: Count = 32
    """Of the split, for kernels."""
    generation: GenerationPart = GenerationPart(temperature=0.0, mode=Mode.SINGLE_SHOT)


class SftConfig(_Part, frozen=True, kw_only=True):
    """Supervised fine-tuning on dialogues: the loss is on what the assistant says alone."""

    model: ModelPart
    data: DataPart
    lora: LoraPart | None = None
    """All weights are trained where it is not given."""
    optimizer: OptimizerPart = OptimizerPart()
    hardware: HardwarePart = HardwarePart()
    links: LinksPart = LinksPart()
    evaluate: EvaluatePart = EvaluatePart()
    batch: Count = 4
    """Dialogues, or packed rows, on each device in one pass."""
    accumulate: Count = 1
    """Passes before the weights change."""
    packing: bool = False
    """Several dialogues in one row of `data.max_tokens`; none sees another."""
    like_lengths: bool = False
    """Dialogues of one batch have about one length, so that less of it is padding."""
    epochs: Positive = 1.0
    steps: Count | None = None
    """Ends before `epochs` do."""
    save_steps: Count = 100
    keep: Count = 2
    """Checkpoints; older ones are deleted."""
    log_steps: Count = 10
    seed: Seed = 0


class GroupsPart(_Part, frozen=True, kw_only=True):
    """What is done about groups whose attempts all get the same reward, so that none has gain."""

    oversample: Count = 1
    """Up to so many times `attempts` are drawn for a task until both outcomes are there."""
    drop_equal: bool = True
    """Groups that are still all equal are left out of the loss and its mean."""
    outcome: Literal["reward", "right", "compiles"] = "reward"
    """What must differ: any reward, or whether kernels are right, or whether they compile."""


class CurriculumPart(_Part, frozen=True, kw_only=True):
    """Which tasks come when: levels open one after the other."""

    levels: tuple[Count, ...] = (1, 2, 3)
    open_at: tuple[Share, ...] = (0.0, 0.0, 0.0)
    """Share of all steps after which each level's tasks are drawn."""


class GrpoConfig(_Part, frozen=True, kw_only=True):
    """Group-relative policy optimisation: attempts of one task are compared with their mean."""

    model: ModelPart
    tasks: str
    """A file or folder of corpus tasks, as `data build` writes it."""
    split: str = "train"
    reward: str = "graded"
    lora: LoraPart | None = None
    optimizer: OptimizerPart = OptimizerPart(learning_rate=1e-6)
    hardware: HardwarePart = HardwarePart()
    links: LinksPart = LinksPart()
    evaluate: EvaluatePart = EvaluatePart()
    generation: GenerationPart = GenerationPart()
    groups: GroupsPart = GroupsPart()
    curriculum: CurriculumPart = CurriculumPart()
    target: Target = Target.TRN2
    attempts: Annotated[int, Meta(ge=2)] = 8
    """For each task: the group over which the gain is centred. Under 4 it is mostly noise."""
    tasks_per_step: Count = 8
    batch: Count = 8
    """Attempts on each device in one pass of the update."""
    clip_low: Positive = 0.2
    clip_high: Positive = 0.28
    """Above `clip_low`, rare good tokens may grow faster than common ones shrink (DAPO)."""
    beta: NotNegative = 0.0
    """Weight of the distance to the first model; the judge can't be fooled, so none is needed."""
    loss: Literal["dapo", "grpo", "dr_grpo"] = "dapo"
    """How tokens are averaged; DAPO counts all tokens of a step alike."""
    scale_by_spread: bool = True
    """Whether gains are divided by their group's standard deviation."""
    steps: Count = 200
    save_steps: Count = 20
    keep: Count = 2
    log_steps: Count = 1
    judge_workers: Annotated[int, Meta(ge=0)] = 0
    """Processes that judge kernels; 0 takes one for each core."""
    seed: Seed = 0


def read_config(path: Path, kind: type[Config]) -> Config:
    """The config in a TOML file.

    Raises:
        UsageError: it cannot be read, or a key or value of it is not known.
    """
    try:
        raw = tomllib.loads(read_text(path))
    except UnreadableError as error:
        raise UsageError(f"{path} {error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from error
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise UsageError(*_explain(error, path, kind)) from error


def write_config(config: SftConfig | GrpoConfig) -> str:
    """The config with every default filled in, as TOML."""
    return "".join(_write_table(msgspec.to_builtins(config), ""))


def _explain(error: msgspec.ValidationError, path: Path, kind: type[_Part]) -> tuple[str]:
    text = str(error)
    found = _FIELD.search(text)
    if found is None:
        return (f"{path}: {text}",)
    table, name = found["path"] or "", found["name"]
    names = _list_fields(kind, table)
    near = difflib.get_close_matches(name, names, n=1)
    where = f"[{table}] has" if table else "there is"
    hint = f"did you mean `{near[0]}`?" if near else f"one of {', '.join(names)}"
    return (f"{path}: {where} no key `{name}`\n  hint: {hint}",)


def _list_fields(kind: type[_Part], table: str) -> list[str]:
    """The keys of a table of the config; tables in it are joined by dots."""
    part = kind
    for name in filter(None, table.split(".")):
        types = {field.name: field.type for field in msgspec.structs.fields(part)}
        options = getattr(types[name], "__args__", (types[name],))
        part = next(o for o in options if isinstance(o, type) and issubclass(o, _Part))
    return [field.name for field in msgspec.structs.fields(part)]


def _write_table(table: dict[str, object], name: str) -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, dict) and v is not None}
    lines = [f"\n[{name}]\n"] if name else []
    lines += [f"{key} = {_write_value(value)}\n" for key, value in plain.items()]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += _write_table(value, f"{name}.{key}" if name else key)
    return lines


def _write_value(value: object) -> str:
    # A TOML value of these kinds is written as JSON writes it.
    return msgspec.json.encode(value).decode()
