"""What one attempt of training came to: everything that a reward may look at.

Law: an Outcome holds a Verdict of the judge, never a guess at one. An attempt that the machine lost
has no Outcome and no reward; it is drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.verify.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The last kernel of an attempt, and how the attempt got there."""

    verdict: Verdict | None
    """None: the reply held no kernel."""
    baseline_ns: float | None = None
    """The latency of the built-in author's first draft for the same task, shapes and target."""
    best_ns: float | None = None
    """The least latency of any right kernel for the task before this attempt."""
    parent_ns: float | None = None
    """The latency of the kernel that this attempt began from, where it began from one."""
    repeated_calls: int = 0
    """Tool calls that sent a kernel which the attempt had sent before."""
    malformed_calls: int = 0
    """Tool calls that no tool could take."""

    @property
    def right_ns(self) -> float | None:
        """The latency of a right kernel; None where it is not right."""
        return self.verdict.latency_ns if self.verdict is not None and self.verdict.right else None

    def speedup_over(self, reference_ns: float | None) -> float | None:
        """`reference_ns` over the latency; None without a reference or a right kernel."""
        if reference_ns is None or self.right_ns is None:
            return None
        return reference_ns / self.right_ns
