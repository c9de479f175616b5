"""What a model reads, and how long a person waits for help: the figures behind the agent's limits.

    python -m benchmarks.words

from the repository's root prints tokens (bytes over four) of the system prompts of all tasks on all
targets and surfaces and of the diagnostics that the tests' faulty kernels get, how many of the
faulty drafts are repaired, and the time of `nki-agent --help`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from nki_agent.agent.brief import write_brief
from nki_agent.agent.fixes import find_fix
from nki_agent.bench.suite import builtin_suite
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.task.loader import load_task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage
from tests.agent.test_diagnostic_length import CHEATS, list_sources
from tests.agent.test_diagnostic_length import count_tokens as count_text
from tests.agent.test_drafts import CASES, verify
from tests.agent.test_prompt import count_tokens
from tests.agent.tiny import load_tiny

HELP_RUNS = 7


def list_prompt_tokens(every: int) -> Iterator[tuple[float, str]]:
    for entry in builtin_suite().tasks[::every]:
        task = load_task(entry.path, name=entry.id)
        for target in Target:
            for surface in Surface:
                tokens = count_tokens(task, target, surface)
                yield tokens, f"{entry.id} {target.value} {surface.value}"


def list_diagnostic_tokens(judge: Judge, folder: Path) -> list[float]:
    task = load_tiny(folder)
    sources = list(dict.fromkeys(list_sources()))
    looks = [judge.look(Kernel.from_text(source), task.dev) for source in sources]
    cheats = [path.read_text(encoding="utf-8") for path in sorted(CHEATS.glob("*.py"))]
    found = [d for source in cheats for d in judge.check(Kernel.from_text(source))]
    found += [d for look in looks for d in look.diagnostics]
    return [count_text(write_brief(diagnostic)) for diagnostic in dict.fromkeys(found)]


def count_repaired(judge: Judge, folder: Path) -> int:
    repaired = 0
    for draft in CASES:
        if draft.is_given_up:
            continue
        kernel = draft.repaired
        if not draft.old:
            fix = find_fix(draft.kernel, target=Target.TRN2)
            kernel = draft.kernel if fix is None else fix.text
        repaired += verify(draft, kernel, judge=judge, folder=folder).stage is Stage.RIGHT
    return repaired


def time_help_s() -> float:
    times = []
    for _ in range(HELP_RUNS):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "nki_agent", "--help"], check=True, stdout=subprocess.DEVNULL
        )
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="Only every n-th task of the 250.")
    given = parser.parse_args()
    print(f"`nki-agent --help`          {time_help_s():.2f} s (median of {HELP_RUNS})")
    prompts = list(list_prompt_tokens(given.every))
    most, where = max(prompts)
    median = statistics.median(tokens for tokens, _ in prompts)
    print(f"system prompt, tokens       {median:.0f} median, {most:.0f} most ({where})")
    with Judge(target=Target.TRN2) as judge, tempfile.TemporaryDirectory() as name:
        sizes = list_diagnostic_tokens(judge, Path(name))
        most, median = max(sizes), statistics.median(sizes)
        print(f"{len(sizes)} diagnostics, tokens     {median:.0f} median, {most:.0f} most")
        print(f"drafts repaired             {count_repaired(judge, Path(name))} of {len(CASES)}")


if __name__ == "__main__":
    main()
