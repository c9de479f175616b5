"""What was seen before is answered differently: the same kernel, the same fault a third time."""

import asyncio

import pytest

from nki_agent.agent.ablation import Tool
from nki_agent.agent.judging import OneJudge
from nki_agent.agent.repeats import Repeats
from nki_agent.agent.tools import Answer, Toolbox
from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import ToolCall
from nki_agent.task.task import Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.verdict import Stage
from tests.agent.tiny import RIGHT, UNTRACEABLE, WRONG

FAULT = Diagnostic(code="NK201", what="partition dimension of tensor `t1` is 256")


@pytest.fixture
def tools(task: Task, judge: Judge) -> Toolbox:
    return Toolbox(OneJudge(judge, task), target=Target.TRN2, root_seed=1)


def use(tools: Toolbox, name: str, **arguments: object) -> Answer:
    return asyncio.run(tools.call(ToolCall(id="1", name=name, arguments=arguments)))


def test_same_kernel_is_told_so_and_not_judged_again(tools: Toolbox) -> None:
    first = use(tools, "verify_kernel", source=UNTRACEABLE)
    again = use(tools, "verify_kernel", source=UNTRACEABLE.replace("\n\n", "\n \n"))
    assert "This is the kernel that you sent to `verify_kernel` before (call 1)" in again.text
    assert again.text.splitlines()[0] == first.text.splitlines()[0] == "stage: untraceable"
    assert "The rule: " in again.text
    assert "Worked pattern: Rows in tiles" in again.text
    assert again.stage is Stage.UNTRACEABLE
    assert len(again.text.encode()) / 4 <= 600


def test_same_right_kernel_is_told_to_be_submitted(tools: Toolbox) -> None:
    use(tools, "verify_kernel", source=RIGHT)
    again = use(tools, "verify_kernel", source=RIGHT)
    assert again.stage is Stage.RIGHT
    assert again.text.endswith("Next: `submit` it, or change it to make it faster.")


def test_kernel_that_only_compiled_is_judged_when_it_is_verified(tools: Toolbox) -> None:
    use(tools, "compile_kernel", source=WRONG)
    assert "before" in use(tools, "compile_kernel", source=WRONG).text
    answer = use(tools, "verify_kernel", source=WRONG)
    assert answer.stage is Stage.WRONG
    assert "NK501" in answer.text


def test_fault_is_called_again_then_explained(tools: Toolbox) -> None:
    drafts = [f"{UNTRACEABLE}# draft {number}\n" for number in range(3)]
    first, second, third = (use(tools, "verify_kernel", source=draft).text for draft in drafts)
    assert "This is NK201" not in first
    assert "This is NK201 again" in second
    assert "The rule" not in second
    assert "This is NK201 for the third time: stop varying the same line." in third
    assert "Worked pattern: Rows in tiles" in third


def test_no_pattern_without_addresses_is_shown_on_the_surface_isa(task: Task, judge: Judge) -> None:
    tools = Toolbox(OneJudge(judge, task), target=Target.TRN2, root_seed=1, surface=Surface.ISA)
    texts = [use(tools, "verify_kernel", source=UNTRACEABLE).text for _ in range(2)]
    texts.append(use(tools, "look_up", query="NK201").text)
    assert "The rule: " in texts[1]
    assert not any("Worked pattern" in text for text in texts)


def test_only_numbers_may_differ_between_equal_faults() -> None:
    repeats = Repeats()
    other = Diagnostic(code="NK201", what="partition dimension of tensor `t1` is 512")
    third = Diagnostic(code="NK201", what="partition dimension of tensor `left` is 512")
    found = [
        repeats.add(f"kernel {n}", Tool.VERIFY, Stage.UNTRACEABLE, fault)
        for n, fault in enumerate((FAULT, other, third))
    ]
    assert found == [1, 2, 1]
