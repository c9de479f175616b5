"""Rewards: one number for an Outcome, higher for better.

Law: no reward falls when a kernel gets further on the ladder of stages, all else equal; `graded`
does not even where the kernel that got further has been paid for with more bad calls. A cheat is
never worth more than an attempt without a kernel.

`compiles` is the reward of the NKI-Agent paper, `cuda_agent`, `makora` and `evokernel` are those of
the systems of these names, with our baseline in place of theirs. docs/guides/reward-design.md says
what to use when.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from nki_agent.base.diagnostic import Severity
from nki_agent.base.errors import UsageError
from nki_agent.train.outcome import Outcome
from nki_agent.verify.verdict import OutputError, Stage, Verdict

Reward = Callable[[Outcome], float]

FASTER: Final = 1.05
"""What counts as faster in `cuda_agent`: by five percent."""
MAKORA_SHIFT: Final = 1.8
"""Centres the sigmoid where a right kernel is 0.8 times as fast as the baseline."""


def compiles(outcome: Outcome) -> float:
    """The paper's: 1 if the kernel could be run, right or not; else 0."""
    return float(outcome.verdict is not None and outcome.verdict.compiled)


def right(outcome: Outcome) -> float:
    """1 if the kernel is right, else 0."""
    return float(outcome.verdict is not None and outcome.verdict.right)


def cuda_agent(outcome: Outcome) -> float:
    """-1 if not right, 1 if right, 2 if 5 % faster than the baseline, 3 if also than the best."""
    if not right(outcome):
        return -1.0
    over_baseline = outcome.speedup_over(outcome.baseline_ns)
    if over_baseline is None or over_baseline < FASTER:
        return 1.0
    over_best = outcome.speedup_over(outcome.best_ns)
    return 3.0 if over_best is not None and over_best >= FASTER else 2.0


def makora(outcome: Outcome) -> float:
    """The sigmoid of 1 + speedup - 1.8 for a right kernel, else 0; 1 is the speedup unknown."""
    if not right(outcome):
        return 0.0
    speedup = outcome.speedup_over(outcome.baseline_ns)
    return _sigmoid(1.0 + (1.0 if speedup is None else speedup) - MAKORA_SHIFT)


def evokernel(outcome: Outcome) -> float:
    """tanh(log(best so far / latency)) for a right kernel, -1 if not right, 0 for the first one."""
    if not right(outcome):
        return -1.0
    speedup = outcome.speedup_over(outcome.best_ns)
    return 0.0 if speedup is None else math.tanh(math.log(speedup))


def over_parent(outcome: Outcome) -> float:
    """The speedup over the kernel that it began from; 0 if not right, 1 without a parent."""
    if not right(outcome):
        return 0.0
    speedup = outcome.speedup_over(outcome.parent_ns)
    return 1.0 if speedup is None else speedup


# Each stage's credit, and what can be earned within it. The next stage begins above their sum by
# more than all penalties together, so that no stage is worth staying in.
NO_KERNEL: Final = 0.05
CREDITS: Final[Mapping[Stage, float]] = MappingProxyType(
    {
        Stage.CHEAT: 0.0,
        Stage.REFUSED: 0.10,
        Stage.UNTRACEABLE: 0.20,
        Stage.UNFIT: 0.30,
        Stage.WRONG: 0.40,
        Stage.RIGHT: 0.70,
    }
)
FEWER_FAULTS: Final = 0.05
"""For the fewest faults, in the stages before values are compared."""
SMALLER_ERROR: Final = 0.25
"""For an error that is nearly allowed, in every output and trial."""
OF_BOUND: Final = 0.25
"""For the whole of the bound."""
IN_PARALLEL: Final = 0.05
"""For engines and DMA that are all busy all the time."""
BAD_CALL: Final = 0.01
"""Taken for each repeated or malformed call, up to BAD_CALLS_MAX in all."""
BAD_CALLS_MAX: Final = 0.04


def graded(outcome: Outcome) -> float:
    """Ours, 0 to 1 before penalties: credit for the stage and for how near the next one is."""
    verdict = outcome.verdict
    earned = NO_KERNEL if verdict is None else CREDITS[verdict.stage] + _within(verdict)
    bad_calls = outcome.repeated_calls + outcome.malformed_calls
    return earned - min(BAD_CALL * bad_calls, BAD_CALLS_MAX)


def _within(verdict: Verdict) -> float:
    match verdict.stage:
        case Stage.CHEAT:
            return 0.0
        case Stage.REFUSED | Stage.UNTRACEABLE | Stage.UNFIT:
            faults = sum(d.severity is Severity.ERROR for d in verdict.diagnostics)
            return FEWER_FAULTS / max(faults, 1)
        case Stage.WRONG:
            outputs = [output for trial in verdict.trials for output in trial.outputs]
            near = sum(map(_nearness, outputs)) / len(outputs) if outputs else 0.0
            return SMALLER_ERROR * near
        case Stage.RIGHT:
            of_bound = min((verdict.percent_of_bound or 0.0) / 100.0, 1.0)
            return OF_BOUND * of_bound + IN_PARALLEL * _parallelism(verdict)


def _nearness(output: OutputError) -> float:
    """1 for a right output, falling with the logarithm of its error; 0 if that is not finite."""
    if output.right:
        return 1.0
    if not math.isfinite(output.ratio):
        return 0.0
    # A ratio of 1 is just allowed: what is wrong by a hair gets nearly all, by 1,000 times a tenth.
    return 1.0 / (1.0 + math.log2(max(output.ratio, 1.0)))


def _parallelism(verdict: Verdict) -> float:
    """How much of the time the others are busy beside the busiest, 0 to 1."""
    shares = sorted(verdict.utilisation.values(), reverse=True)
    rest = shares[1:]
    return min(sum(rest) / len(rest), 1.0) if rest else 0.0


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


REWARDS: Final[Mapping[str, Reward]] = MappingProxyType(
    {
        "compiles": compiles,
        "right": right,
        "cuda-agent": cuda_agent,
        "makora": makora,
        "evokernel": evokernel,
        "over-parent": over_parent,
        "graded": graded,
    }
)
"""Every reward by the name that a config gives."""


def find_reward(name: str) -> Reward:
    """The reward of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in REWARDS:
        near = difflib.get_close_matches(name, REWARDS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"one of {', '.join(REWARDS)}"
        raise UsageError(f"no reward `{name}`", hint=hint)
    return REWARDS[name]
