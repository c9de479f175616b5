"""`--prompt` and `--tools`: what a model is given beside the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from nki_agent.agent.ablation import Ablation, PromptKind, make_ablation
from nki_agent.agent.episode import Mode
from nki_agent.cli.option_group import takes_options

PROMPT_HELP = "`rank-aware`; `plain`: no ranks, limits, plan; `short`: for small trained models."
TOOLS_HELP = "`all`, `none`, or some: `compile,verify`. Left out: all, in a loop."
OPTIONS: dict[str, Any] = {
    "prompt": Annotated[PromptKind, typer.Option(help=PROMPT_HELP)],
    "tools": Annotated[str | None, typer.Option(help=TOOLS_HELP)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablating:
    """What was asked for, before it is resolved."""

    prompt: PromptKind = PromptKind.RANK_AWARE
    tools: str | None = None

    def resolve(self, *, mode: Mode) -> Ablation:
        """Prompt and tools of a run; UsageError where there is no such tool, or none can be."""
        return make_ablation(self.prompt, self.tools, mode=mode)


takes_ablation = takes_options("ablating", Ablating, OPTIONS)
