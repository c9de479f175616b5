"""The prompt states ranks, folds and limits of this task on this chip, and nothing stale."""

import re
from pathlib import Path

import pytest

from nki_agent.agent.ablation import ALL_TOOLS, Ablation, PromptKind, Tool
from nki_agent.agent.cards import ALIASES, look_up
from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.plan import write_fold
from nki_agent.agent.prompt import Prompt, hash_prompts, make_prompt, read_versions
from nki_agent.bench.suite import builtin_suite
from nki_agent.check.source import check_source
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task
from tests.agent.tiny import TASK

BYTES_PER_TOKEN = 4
SYSTEM_TOKENS_MAX = 3500


TASKS = builtin_suite().tasks
PART = 25
"""Tasks of one test: loading them takes some seconds."""


def prompt_for(
    task: Task,
    *,
    target: Target = Target.TRN2,
    mode: Mode = Mode.LOOP,
    turns: int = 10,
    ablation: Ablation | None = None,
) -> Prompt:
    limits = Limits(turns=turns)
    return make_prompt(
        task, target=target, mode=mode, limits=limits, ablation=ablation or Ablation()
    )


def test_prompt_states_rank_shape_dtype_and_fold(task: Task) -> None:
    prompt = prompt_for(task)
    line = next(line for line in prompt.system.splitlines() if line.startswith("- `x`"))
    assert "`x`, `output`: rank 3, shape [2, 75, 16], float32; fold to [150, 16]" in line
    assert "2 tiles of [128, 16], the last [22, 16]" in line
    assert "a row takes 64 bytes of a partition's 212984" in line
    assert "`x`: input, shape [2, 75, 16], float32" in prompt.user
    assert "shape [2, 75, 16], float32; relative L2 error at most" in prompt.user
    assert task.source.strip() in prompt.user


def test_plan_says_whether_weights_fit_and_what_a_matmul_makes_of_them(tmp_path: Path) -> None:
    path = tmp_path / "linear.py"
    path.write_text(
        'SHAPES = {"dev": {"M": 40, "K": 300}, "perf": {"M": 40, "K": 90000}}\n'
        'INPUTS = {"x": "float32[M, K]"}\nPARAMETERS = {"w": "float32[K, 640]"}\n'
        'OUTPUTS = {"y": "float32[M, 640]"}\n'
        "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
        "    def __init__(self, K):\n        super().__init__()\n"
        "        self.w = nn.Parameter(torch.empty(K, 640))\n\n"
        "    def forward(self, x):\n        return x @ self.w\n"
    )
    system = prompt_for(load_task(path)).system
    assert "- weights: 768000 bytes, 6000 bytes of each partition" in system
    assert "they fit: load each once" in system
    assert "`w` in a matmul: summed over axis 0, 3 tiles (last 44) of K; over axis 1," in system
    assert "- weights there: 230400000 bytes" in system
    assert "they don't fit beside other tiles: stream them in blocks" in system
    assert "`w` has 704 tiles (last 16) of rows" in system


def test_plan_says_into_what_blocks_a_row_goes_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "wide.py"
    path.write_text(TASK.replace("(2, 75, 16)", "(2, 90000)"))
    system = prompt_for(load_task(path)).system
    assert "a row takes 360000 bytes of 212984: blocks of at most 13311 columns" in system


@pytest.mark.parametrize("start", range(0, len(TASKS), PART))
def test_system_prompt_of_every_task_is_short(start: int) -> None:
    too_long = {
        f"{entry.id} {target.value} {surface.value}": tokens
        for entry in TASKS[start : start + PART]
        for task in [load_task(entry.path, name=entry.id)]
        for target in Target
        for surface in Surface
        if (tokens := count_tokens(task, target, surface)) > SYSTEM_TOKENS_MAX
    }
    assert too_long == {}


def count_tokens(task: Task, target: Target, surface: Surface) -> float:
    limits = Limits()
    prompt = make_prompt(task, target=target, mode=Mode.LOOP, limits=limits, surface=surface)
    return len(prompt.system.encode()) / BYTES_PER_TOKEN


def test_plain_prompt_on_the_surface_isa_still_says_what_is_refused(task: Task) -> None:
    plain = Ablation(prompt=PromptKind.PLAIN)
    prompt = make_prompt(
        task,
        target=Target.TRN2,
        mode=Mode.LOOP,
        limits=Limits(),
        ablation=plain,
        surface=Surface.ISA,
    )
    assert "NK119" in prompt.system
    assert "NK119" not in prompt_for(task, ablation=plain).system


def test_plain_prompt_says_nothing_of_ranks_limits_and_instructions(task: Task) -> None:
    plain = prompt_for(task, ablation=Ablation(prompt=PromptKind.PLAIN))
    text = plain.system + plain.user.replace(task.source.strip(), "")
    for word in ("rank", "partition", "SBUF", "nisa.activation", "fold", "hand in\n"):
        assert word not in text
    assert "`x`: input, shape [2, 75, 16], float32" in plain.user
    assert plain.hash != prompt_for(task).hash


@pytest.mark.parametrize("tool", ALL_TOOLS)
@pytest.mark.parametrize("kind", [PromptKind.RANK_AWARE, PromptKind.PLAIN])
def test_prompt_names_only_tools_that_are_offered(task: Task, tool: Tool, kind: PromptKind) -> None:
    prompt = prompt_for(task, ablation=Ablation(prompt=kind, tools=(tool,)))
    named = {other for other in ALL_TOOLS if f"`{other.value}`" in prompt.system}
    assert named == {tool}
    assert "call `submit`" in prompt.system


def test_loop_without_tools_is_told_as_a_single_shot(task: Task) -> None:
    assert "There are no tools." in prompt_for(task, ablation=Ablation(tools=())).system


def test_words_of_the_prompts_do_not_change_without_a_new_version() -> None:
    assert dict(read_versions().files) == hash_prompts(), "raise `version` in versions.toml"
    assert str(read_versions()).startswith(f"{read_versions().version} (")


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2, Target.TRN3])
def test_every_instruction_of_the_target_is_in_the_prompt(task: Task, target: Target) -> None:
    system, generation = prompt_for(task, target=target).system, load_chip(target).generation
    for declaration in TABLE.values():
        alias = ALIASES[declaration.page.rpartition(".")[0]]
        is_there = f"{alias}.{declaration.name}(" in system
        assert is_there == (declaration.first_generation <= generation), declaration.name


@pytest.mark.parametrize("target", [Target.TRN1, Target.TRN2, Target.TRN3])
def test_prompt_is_short(task: Task, target: Target) -> None:
    assert len(prompt_for(task, target=target).system.encode()) / BYTES_PER_TOKEN <= 3500


def test_packed_dtypes_are_named_where_mx_is(task: Task) -> None:
    assert "float8_e4m3fn_x4" in prompt_for(task, target=Target.TRN3).system
    assert "_x4" not in prompt_for(task, target=Target.TRN2).system


def test_limits_are_those_of_the_target(task: Task) -> None:
    assert "SBUF: 207 KiB" in prompt_for(task, target=Target.TRN2).system
    assert "SBUF: 176 KiB" in prompt_for(task, target=Target.TRN1).system


def test_hash_follows_the_text(task: Task) -> None:
    same = prompt_for(task), prompt_for(task)
    assert same[0].hash == same[1].hash
    assert prompt_for(task, turns=3).hash != same[0].hash


def test_single_shot_names_no_tool(task: Task) -> None:
    system = prompt_for(task, mode=Mode.SINGLE_SHOT).system
    assert "verify_kernel" not in system
    assert "one fenced Python block" in system


def test_example_in_the_prompt_traces(task: Task) -> None:
    block = re.search(r"```python\n(.*?)```", prompt_for(task).system, re.DOTALL)
    assert block
    reply = trace_source(block[1], [ArgumentSpec("x", (300, 64), DType.FLOAT32)])
    assert reply.findings == ()


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((1,), "a row [1, 1]"),
        ((131,), "`.reshape((1, 131))`"),
        ((1000,), "`.reshape((125, 8))`"),
        ((100, 8), "one tile of [100, 8]"),
        ((128, 8), "one tile of [128, 8]"),
        ((256, 8), "2 tiles of [128, 8]"),
        ((129, 8), "2 tiles of [128, 8], the last [1, 8]"),
        ((2, 3, 5, 7), "fold to [30, 7]"),
    ],
)
def test_fold_puts_rows_on_partitions(shape: tuple[int, ...], words: str) -> None:
    assert words in write_fold(shape, partitions=128)


def test_prompt_says_at_which_sizes_a_kernel_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "many_sizes.py"
    path.write_text(
        'SHAPES = {"dev": {"M": 40}, "odd": {"M": 7}, "perf": {"M": 4096}}\n'
        'INPUTS = {"x": "float32[M, 48]"}\nOUTPUTS = {"y": "float32[M, 48]"}\n'
        "def reference(x):\n    return x + 1.0\n"
    )
    text = make_prompt(load_task(path), target=Target.TRN2, mode=Mode.LOOP, limits=Limits()).user
    assert "take every size from the arguments' shapes" in text
    assert "timed at `x` [4096, 48]" in text
    assert "[7, 48]" not in text
    assert '{"M": 7}' not in text
    assert '"perf": {"M": 4096}' in text


def test_prompt_of_one_shape_set_says_so(task: Task) -> None:
    text = make_prompt(task, target=Target.TRN2, mode=Mode.LOOP, limits=Limits()).user
    assert "These are the only shapes." in text


def test_prompt_of_the_surface_isa_asks_for_addresses_and_offers_no_functions(task: Task) -> None:
    prompt = make_prompt(
        task, target=Target.TRN2, mode=Mode.LOOP, limits=Limits(), surface=Surface.ISA
    )
    assert "address=(partition, byte" in prompt.system
    assert "`nl.fori_loop`" in prompt.system
    assert "further ones: " not in prompt.system
    assert prompt.hash != prompt_for(task).hash
    example = re.findall(r"^```python\n(.*?)^```", prompt.system, re.MULTILINE | re.DOTALL)[0]
    found = check_source(
        {"kernel.py": example}, "kernel.py", target=Target.TRN2, surface=Surface.ISA
    )
    assert found == []


def test_look_up_on_the_surface_isa_knows_no_function_that_is_off_it() -> None:
    wide = look_up("load", target=Target.TRN2)
    assert wide.startswith("nl.load(")
    assert "nl.load(" not in look_up("load", target=Target.TRN2, surface=Surface.ISA)
