"""Best of n: independent episodes for one task, and the one whose kernel counts.

Law: every sample has a seed and a history of its own, so the samples' number changes none of them.
The best is right, then fast; of equals the earliest.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from nki_agent.agent.episode import Episode
from nki_agent.base.seeds import seed_for
from nki_agent.llm.prices import add_usd
from nki_agent.llm.protocol import Usage
from nki_agent.verify.verdict import Stage

LADDER = tuple(Stage)
NO_KERNEL = -1


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """How one of several episodes went, in short."""

    number: int
    end: str
    stage: Stage | None
    latency_ns: float | None
    turns: int


def sample_seed(root: int, number: int) -> int:
    """The root seed of one sample; the first has that of a run without samples."""
    return root if number == 0 else seed_for(root, "sample", number)


def choose_best(episodes: Sequence[Episode]) -> int:
    """The place of the episode that came furthest; among right ones, the fastest."""
    return max(range(len(episodes)), key=lambda n: (*_rank(episodes[n]), -n))


def list_samples(episodes: Sequence[Episode]) -> tuple[Sample, ...]:
    """Every episode in a line."""
    return tuple(
        Sample(
            number=number,
            end=episode.end.value,
            stage=None if episode.verdict is None else episode.verdict.stage,
            latency_ns=None if episode.verdict is None else episode.verdict.latency_ns,
            turns=episode.turns,
        )
        for number, episode in enumerate(episodes)
    )


def sum_up_episodes(episodes: Sequence[Episode]) -> Episode:
    """The best one, with the turns, tokens, dollars and time of all."""
    best = episodes[choose_best(episodes)]
    usage = Usage()
    usd: float | None = 0.0
    for episode in episodes:
        usage += episode.usage
        usd = add_usd(usd, episode.usd)
    return msgspec.structs.replace(
        best,
        turns=sum(episode.turns for episode in episodes),
        usage=usage,
        usd=usd,
        wall_ms=sum(episode.wall_ms for episode in episodes),
    )


def _rank(episode: Episode) -> tuple[int, float]:
    verdict = episode.verdict
    if verdict is None:
        return NO_KERNEL, 0.0
    latency = verdict.latency_ns if verdict.latency_ns is not None else float("inf")
    return LADDER.index(verdict.stage), -latency
