"""The prompt states ranks, folds and limits of this task on this chip, and nothing stale."""

import re
from pathlib import Path

import pytest

from nki_agent.agent.cards import ALIASES, look_up
from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.prompt import Prompt, make_prompt, write_fold
from nki_agent.check.source import check_source
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.task.loader import load_task
from nki_agent.task.task import Task

BYTES_PER_TOKEN = 4


def prompt_for(
    task: Task, *, target: Target = Target.TRN2, mode: Mode = Mode.LOOP, turns: int = 10
) -> Prompt:
    return make_prompt(task, target=target, mode=mode, limits=Limits(turns=turns))


def test_prompt_states_rank_shape_dtype_and_fold(task: Task) -> None:
    user = prompt_for(task).user
    assert "`x`: input, rank 3, shape [2, 75, 16], float32; fold to [150, 16]" in user
    assert "2 tiles of [128, 16], the last [22, 16]" in user
    assert "rank 3, shape [2, 75, 16], float32; relative L2 error at most" in user
    assert task.source.strip() in user


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
