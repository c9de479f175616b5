"""`inspect eval nki_agent/nkibench` runs our episode and says what our judge says."""

import gc
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

inspect_ai = pytest.importorskip("inspect_ai")
inspect_model = pytest.importorskip("inspect_ai.model")

from nki_agent.bench.attempt import Attempt  # noqa: E402
from nki_agent.check.surface import Surface  # noqa: E402
from nki_agent.llm.inspect_model import to_inspect, to_reply  # noqa: E402
from nki_agent.llm.protocol import Message, Role, StopReason, ToolCall  # noqa: E402

TASK = "l1-relu-1d-bf16"
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    size = x.shape[0]
    for start in range(0, size, 8192):
        width = min(8192, size - start)
        tile = nl.ndarray((1, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + width].reshape((1, width)))
        nisa.activation(dst=tile, data=tile, op=nl.relu)
        nisa.dma_copy(dst=out[start : start + width].reshape((1, width)), src=tile)
    return out
"""


def make_model(steps: Sequence[tuple[str, dict[str, str]]]) -> Any:
    """A model of Inspect that calls one tool a turn; usage is given, so nothing is downloaded."""

    def make(tool: str, arguments: dict[str, str]) -> Any:
        output = inspect_model.ModelOutput.for_tool_call("mockllm/model", tool, arguments)
        output.usage = inspect_model.ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return output

    return inspect_model.get_model(
        "mockllm/model", custom_outputs=[make(tool, given) for tool, given in steps]
    )


def evaluate(folder: Path, *steps: tuple[str, dict[str, str]], surface: str = "nki") -> Any:
    (log,) = inspect_ai.eval(
        "nki_agent/nkibench",
        model=make_model(steps),
        task_args={
            "split": "smoke-12",
            "workers": 1,
            "seed": 3,
            "surface": surface,
        },
        sample_id=TASK,
        display="none",
        log_dir=str(folder),
    )
    assert log.status == "success", log.error
    # Inspect leaves streams open: they complain here, where that is ignored, and not at the end.
    gc.collect()
    return log


@pytest.mark.filterwarnings("ignore")
def test_right_kernel_is_scored_and_told(tmp_path: Path) -> None:
    log = evaluate(tmp_path, ("verify_kernel", {"source": KERNEL}), ("submit", {}))
    metrics = {name: m.value for name, m in log.results.scores[0].metrics.items()}
    assert metrics["accuracy"] == metrics["compiled"] == 1.0
    (sample,) = log.samples
    (score,) = sample.scores.values()
    attempt = msgspec.convert(score.metadata["attempt"], Attempt)
    assert attempt.right
    assert attempt.cost.turns == 2
    assert attempt.cost.input_tokens == 20
    assert score.answer.strip() == KERNEL.strip()
    roles = ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert [m.role for m in sample.messages] == roles
    assert "stage: right" in sample.messages[3].text


@pytest.mark.filterwarnings("ignore")
def test_wrong_kernel_is_scored_as_wrong(tmp_path: Path) -> None:
    wrong = KERNEL.replace("nl.relu", "nl.copy")
    log = evaluate(tmp_path, ("submit", {"source": wrong}))
    metrics = {name: m.value for name, m in log.results.scores[0].metrics.items()}
    assert (metrics["accuracy"], metrics["compiled"]) == (0.0, 1.0)


@pytest.mark.filterwarnings("ignore")
def test_log_viewer_has_every_call_with_its_answer_and_a_timeline(tmp_path: Path) -> None:
    wrong = KERNEL.replace("nl.relu", "nl.copy")
    steps: tuple[tuple[str, dict[str, str]], ...] = (
        ("look_up", {"query": "relu"}),
        ("verify_kernel", {"source": wrong}),
        ("verify_kernel", {"source": KERNEL}),
        ("submit", {}),
    )
    (sample,) = evaluate(tmp_path, *steps).samples
    calls = [c for m in sample.messages if m.role == "assistant" for c in m.tool_calls or ()]
    answers = {m.tool_call_id: m for m in sample.messages if m.role == "tool"}
    assert [call.function for call in calls] == [name for name, _ in steps]
    assert [answers[call.id].function for call in calls] == [name for name, _ in steps]
    assert "Submitted" in answers[calls[-1].id].text
    told = [e.data for e in sample.events if e.event == "info" and e.source == "nki-agent"]
    assert [(t["tool"], t["stage"]) for t in told[:-1]] == [
        ("look_up", None),
        ("verify_kernel", "wrong"),
        ("verify_kernel", "right"),
        ("submit", None),
    ]
    assert (told[-1]["end"], told[-1]["turns"], told[-1]["stage"]) == ("solved", 4, "right")
    kinds = [e.event for e in sample.events if e.event in ("model", "info")]
    assert kinds == ["model", "info"] * 4 + ["info"]


@pytest.mark.filterwarnings("ignore")
def test_kernel_off_the_surface_is_scored_as_wrong(tmp_path: Path) -> None:
    log = evaluate(tmp_path, ("submit", {"source": KERNEL}), surface="isa")
    metrics = {name: m.value for name, m in log.results.scores[0].metrics.items()}
    assert (metrics["accuracy"], metrics["compiled"]) == (0.0, 0.0)
    (score,) = log.samples[0].scores.values()
    attempt = msgspec.convert(score.metadata["attempt"], Attempt)
    assert (attempt.surface, attempt.codes) == (Surface.ISA, ("NK119",))
    assert "You have 15 turns" in log.samples[0].messages[0].text


def test_messages_and_replies_keep_what_they_say() -> None:
    call = ToolCall(id="7", name="look_up", arguments={"query": "exp"})
    sent = to_inspect(Message(role=Role.ASSISTANT, content="text", tool_calls=(call,)))
    reply = to_reply(
        inspect_model.ModelOutput(
            model="m",
            choices=[inspect_model.ChatCompletionChoice(message=sent, stop_reason="tool_calls")],
        )
    )
    assert (reply.text, reply.tool_calls, reply.stop) == ("text", (call,), StopReason.TOOL_CALLS)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("content_filter", StopReason.REFUSAL),
        ("max_tokens", StopReason.LENGTH),
        ("stop", StopReason.DONE),
    ],
)
def test_reason_to_stop_is_told(reason: Any, stop: StopReason) -> None:
    output = inspect_model.ModelOutput.from_content("m", "text", stop_reason=reason)
    assert to_reply(output).stop is stop


def test_ablation_is_an_option_of_the_task() -> None:
    from_options = importlib.import_module("nki_agent.evals.inspect_task").nkibench
    assert from_options(prompt="plain", tools="compile,verify", seed=1).dataset


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("split", "nope", "no split `nope`"),
        ("target", "trn9", "one of trn1, inf2, trn2, trn3"),
        ("mode", "nope", "one of loop, single-shot"),
        ("surface", "x", "one of nki, isa"),
        ("prompt", "x", "one of "),
        ("tools", "nope", "names no tool `nope`"),
        ("turns", 0, "not between 1 and"),
        ("turns", "many", "not between 1 and"),
        ("workers", 0, "not between 1 and 1024"),
        ("workers", 10**6, "not between 1 and 1024"),
        ("seed", -4, "is not between 0 and"),
    ],
)
def test_option_that_cannot_be_meant_is_told_without_a_traceback(
    option: str, value: object, words: str
) -> None:
    nkibench = importlib.import_module("nki_agent.evals.registry").nkibench
    prerequisite = importlib.import_module("inspect_ai._util.error").PrerequisiteError
    with pytest.raises(prerequisite) as caught:
        nkibench(**{option: value})
    assert words in str(caught.value.message)
