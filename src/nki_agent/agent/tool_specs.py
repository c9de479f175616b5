"""The tools as a model sees them: names, one sentence each, and the form of their arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from nki_agent.agent.ablation import SUBMIT, Tool
from nki_agent.llm.protocol import Json, ToolSpec
from nki_agent.task.declaration import DEV, PERF

KERNELS_MAX = 8
"""Kernels that `verify_many` takes in one call."""


class SourceArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tools that take a kernel; without one, the last one that was sent."""

    source: str | None = None


class ProfileArguments(SourceArguments, frozen=True, forbid_unknown_fields=True):
    """Arguments of `profile_kernel`: a kernel, and the shapes that it runs at."""

    shapes: Literal["dev", "perf"] = "dev"


class ShowArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `show_program`."""

    source: str | None = None
    line: int | None = None


class SourcesArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `verify_many`."""

    sources: list[str]


class QueryArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `look_up` and `find_kernels`."""

    query: str


def _object(properties: Mapping[str, Any], *, required: Sequence[str] = ()) -> Json:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


_ONE = {"type": "string", "description": "The whole kernel file. Left out: the last one."}
_SHAPES = {
    "type": "string",
    "enum": [DEV, PERF],
    "description": "The sizes that it runs at: those that prove it, as `verify_kernel` (dev), or"
    " the larger ones that its speed is claimed for (perf).",
}
_SOURCE = _object({"source": _ONE})
TOOL_SPECS: Mapping[Tool, ToolSpec] = {
    Tool.COMPILE: ToolSpec(
        name=Tool.COMPILE,
        description="Check and trace a kernel and lay out its memory, without running it.",
        parameters=_SOURCE,
    ),
    Tool.VERIFY: ToolSpec(
        name=Tool.VERIFY,
        description="Judge a kernel: all of compile_kernel, then its values against the reference"
        " on fresh inputs, then its estimated latency.",
        parameters=_SOURCE,
    ),
    Tool.VERIFY_MANY: ToolSpec(
        name=Tool.VERIFY_MANY,
        description="Judge several versions of a kernel in one call; a table, best first. The best"
        " one is then the last one that was sent.",
        parameters=_object(
            {
                "sources": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": f"Whole kernel files, at most {KERNELS_MAX}.",
                }
            },
            required=("sources",),
        ),
    ),
    Tool.PROFILE: ToolSpec(
        name=Tool.PROFILE,
        description="Say where a kernel's time goes: engines, DMA, what bounds it.",
        parameters=_object({"source": _ONE, "shapes": _SHAPES}),
    ),
    Tool.SHOW: ToolSpec(
        name=Tool.SHOW,
        description="Show what the source lines of a kernel became: instructions with their"
        " operands, and the largest tiles.",
        parameters=_object(
            {
                "source": _ONE,
                "line": {"type": "integer", "description": "Only around this source line."},
            }
        ),
    ),
    Tool.LOOK_UP: ToolSpec(
        name=Tool.LOOK_UP,
        description="Look up an instruction, operator, limit, diagnostic code or worked pattern.",
        parameters=_object(
            {"query": {"type": "string", "description": "A name, a code, or a few words."}},
            required=("query",),
        ),
    ),
    Tool.FIND: ToolSpec(
        name=Tool.FIND,
        description="Find right kernels for other tasks that were written here before.",
        parameters=_object(
            {"query": {"type": "string", "description": "What it computes, or a kernel's id."}},
            required=("query",),
        ),
    ),
}
SUBMIT_SPEC = ToolSpec(
    name=SUBMIT,
    description="Hand in the kernel and end. It is judged again on fresh inputs.",
    parameters=_SOURCE,
)


def list_specs(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """What a model with these tools is offered; `submit` is there whenever a tool is."""
    if not tools:
        return ()
    return (*(TOOL_SPECS[tool] for tool in tools), SUBMIT_SPEC)
