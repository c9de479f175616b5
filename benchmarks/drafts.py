"""How long the built-in author takes for a first draft of each of the 250 tasks.

Time of one process from a loaded task to kernel source: capture, plan, print; no judging. Goal: a
median of at most 0.4 s. Prints quantiles, the slowest tasks, and what was refused.
Run: python benchmarks/drafts.py
     python benchmarks/drafts.py --target trn3
"""

from __future__ import annotations

import argparse
from statistics import median

from nki_agent.base.clock import SystemClock
from nki_agent.bench.suite import builtin_suite
from nki_agent.builtin.graph import UnsupportedError
from nki_agent.builtin.write import write_kernel
from nki_agent.chip.spec import DEFAULT_TARGET, Target
from nki_agent.task.loader import load_task

NS_PER_SECOND = 1e9
SLOWEST = 5
NINE_TENTHS = 0.9


def main() -> None:
    """Write every draft once, after one that loads what is loaded late."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", type=Target, default=DEFAULT_TARGET)
    target = parser.parse_args().target
    clock = SystemClock()
    tasks = builtin_suite().tasks
    write_kernel(load_task(tasks[0].path), target)
    seconds: dict[str, float] = {}
    refused: list[str] = []
    for task in tasks:
        loaded = load_task(task.path)
        start_ns = clock.monotonic_ns()
        try:
            write_kernel(loaded, target)
        except UnsupportedError as error:
            refused.append(f"{task.id}: {error}")
        seconds[task.id] = (clock.monotonic_ns() - start_ns) / NS_PER_SECOND
    ordered = sorted(seconds, key=lambda name: seconds[name])
    last = seconds[ordered[int(NINE_TENTHS * len(ordered))]]
    print(
        f"{len(ordered)} drafts: median {median(seconds.values()):.3f} s (goal 0.4), "
        f"nine tenths within {last:.2f} s"
    )
    for name in reversed(ordered[-SLOWEST:]):
        print(f"  {seconds[name]:6.2f} s  {name}")
    print("refused:", *(refused or ["none"]), sep="\n  ")


if __name__ == "__main__":
    main()
