"""What a model is given beside the task: which prompt, which tools.

Law: everything that is switched off for an experiment is in this record, and the record is in the
config and the results of every run, so figures made under different ones are never mixed.
"""

from __future__ import annotations

import difflib
from enum import StrEnum

import msgspec

from nki_agent.agent.episode import Mode
from nki_agent.base.errors import UsageError


class PromptKind(StrEnum):
    """How much a model is told."""

    RANK_AWARE = "rank-aware"
    """Ranks, folds, tile plan, limits, instructions and a checklist."""
    PLAIN = "plain"
    """The form of the file, the arguments and the reference; nothing about ranks or the chip."""
    SHORT = "short"
    """Arguments and the reference's lines alone, with short answers, for small trained models."""


class Tool(StrEnum):
    """What a model may call, by the name that it calls it."""

    COMPILE = "compile_kernel"
    VERIFY = "verify_kernel"
    VERIFY_MANY = "verify_many"
    PROFILE = "profile_kernel"
    SHOW = "show_program"
    LOOK_UP = "look_up"
    FIND = "find_kernels"

    @property
    def word(self) -> str:
        """Its name on the command line."""
        return self.value.removesuffix("_kernel").removesuffix("_kernels").removesuffix("_program")


ALL_TOOLS = tuple(Tool)
NONE, ALL = "none", "all"
SUBMIT = "submit"
"""There whenever a tool is there: it ends an episode and tells a model nothing."""


class Ablation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prompt and tools of a run."""

    prompt: PromptKind = PromptKind.RANK_AWARE
    tools: tuple[Tool, ...] = ALL_TOOLS

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return self == Ablation()

    def __str__(self) -> str:
        """For the head of a table: `plain prompt, tools compile, verify`."""
        return f"{self.prompt.value} prompt, tools {write_tools(self.tools)}"


def parse_tools(text: str) -> tuple[Tool, ...]:
    """The tools that `--tools` names, in their order: `none`, `all`, or `compile,verify`.

    Raises:
        UsageError: a name stands for no tool.
    """
    names = [name.strip().lower().replace("-", "_") for name in text.split(",")]
    if names == [NONE]:
        return ()
    if names == [ALL]:
        return ALL_TOOLS
    known = {tool.value: tool for tool in Tool} | {tool.word: tool for tool in Tool}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            words = ", ".join(tool.word for tool in Tool)
            hint = f"did you mean `{near[0]}`?" if near else f"`none`, `all`, or some of {words}"
            raise UsageError(f"`--tools` names no tool `{name}`", hint=hint)
    return tuple(tool for tool in Tool if tool in {known[name] for name in names})


def write_tools(tools: tuple[Tool, ...]) -> str:
    """The tools as `--tools` would name them."""
    if not tools:
        return NONE
    return ALL if tools == ALL_TOOLS else ",".join(tool.word for tool in tools)


def make_ablation(prompt: PromptKind, tools: str | None, *, mode: Mode) -> Ablation:
    """Prompt and tools of a run; a single shot has none.

    Raises:
        UsageError: no such tool, or tools for a single shot.
    """
    chosen = None if tools is None else parse_tools(tools)
    if mode is Mode.SINGLE_SHOT:
        if chosen:
            raise UsageError(
                "a single shot has no tools",
                hint="leave `--tools` out, or take `--mode loop`",
            )
        return Ablation(prompt=prompt, tools=())
    return Ablation(prompt=prompt, tools=ALL_TOOLS if chosen is None else chosen)
