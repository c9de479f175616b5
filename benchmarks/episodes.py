"""What the loop itself costs, and whether many episodes at once block each other.

    python benchmarks/episodes.py

prints the loop's own time a turn, without model and judge, and for 32 episodes at once behind a
model that thinks for a while: time over that of one episode, peak memory of all processes, and the
longest time that the event loop was held.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from nki_agent.agent.episode import Limits, Mode
from nki_agent.agent.judging import FarmJudging, Judging
from nki_agent.agent.loop import solve
from nki_agent.agent.prompt import make_prompt
from nki_agent.agent.tools import Toolbox
from nki_agent.agent.trajectory import Started, Trajectory
from nki_agent.base.clock import SystemClock
from nki_agent.chip.spec import Target
from nki_agent.farm.local import LocalExecutor
from nki_agent.llm.choose import find_free_tariff
from nki_agent.llm.meter import Budget, MeteredModel, Purse, SharedTime
from nki_agent.llm.protocol import Message, Reply, Role, TokenLimits, ToolCall, ToolSpec
from nki_agent.task.loader import load_task
from nki_agent.task.task import Scope, Task
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Verdict

EXAMPLE = Path(__file__).parent.parent / "examples" / "rmsnorm.py"
KERNEL = (
    "import nki\n\n\n@nki.jit\ndef kernel(x, w):\n    return x\n" + "# a line of a kernel\n" * 200
)
TURNS = 10
EPISODES = 32
THINKING_S = 0.5
MIB = 1 << 20
TICK_S = 0.005


class Thinking:
    """Verifies the same kernel each turn, after a while."""

    name = "thinking"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.spent_s = 0.0

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        del tools, limits
        start = time.perf_counter()
        await asyncio.sleep(self.seconds)
        self.spent_s += time.perf_counter() - start
        number = sum(message.role is Role.ASSISTANT for message in messages)
        source = f"{KERNEL}# {number}\n"
        call = ToolCall(id=f"{number}", name="verify_kernel", arguments={"source": source})
        return Reply(text="again", tool_calls=(call,))


class Timed:
    """A judge whose own time is known."""

    def __init__(self, judging: Judging) -> None:
        self.judging = judging
        self.spent_s = 0.0

    async def look(self, kernel: Kernel, *, scope: Scope = Scope.PROOF) -> Look:
        start = time.perf_counter()
        look = await self.judging.look(kernel, scope=scope)
        self.spent_s += time.perf_counter() - start
        return look

    async def judge(self, kernel: Kernel, *, root_seed: int, scope: Scope = Scope.PROOF) -> Verdict:
        start = time.perf_counter()
        verdict = await self.judging.judge(kernel, root_seed=root_seed, scope=scope)
        self.spent_s += time.perf_counter() - start
        return verdict


async def run_one(task: Task, judging: Judging, folder: Path, number: int, think_s: float) -> float:
    """One episode's seconds, model and judge taken off."""
    clock, limits = SystemClock(), Limits(turns=TURNS)
    start = time.perf_counter()
    timed, thinking = Timed(judging), Thinking(think_s)
    prompt = make_prompt(task, target=Target.TRN2, mode=Mode.LOOP, limits=limits)
    trajectory = Trajectory(folder / f"{number}.jsonl", clock=clock)
    trajectory.add(
        Started(
            at=trajectory.now(),
            task=task.id,
            task_hash=task.hash,
            model=thinking.name,
            mode=Mode.LOOP,
            target="trn2",
            prompt_hash=prompt.hash,
        )
    )
    model = MeteredModel(
        thinking,
        tariff=find_free_tariff("scripted"),
        purse=Purse(Budget()),
        time=SharedTime(clock),
    )
    tools = Toolbox(timed, target=Target.TRN2, root_seed=number)
    await solve(prompt, model, tools, limits=limits, clock=clock, trajectory=trajectory)
    return time.perf_counter() - start - timed.spent_s - thinking.spent_s


async def run_many(
    task: Task, judging: Judging, folder: Path, *, episodes: int, think_s: float
) -> tuple[float, float, float]:
    """Seconds for all, own seconds a turn (median), the longest time the loop was held."""
    held = [0.0]

    async def watch() -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(TICK_S)
            held[0] = max(held[0], time.perf_counter() - start - TICK_S)

    watching = asyncio.create_task(watch())
    start = time.perf_counter()
    own = await asyncio.gather(
        *(run_one(task, judging, folder, number, think_s) for number in range(episodes))
    )
    wall = time.perf_counter() - start
    watching.cancel()
    return wall, statistics.median(own) / TURNS, held[0]


def read_memory_mib() -> float:
    """Memory of this process and all below it, each shared page counted in its part."""
    family, total = {os.getpid()}, 0
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            )
        except OSError:
            continue
    for _ in range(8):
        family |= {pid for pid, parent in parents.items() if parent in family}
    for pid in family:
        try:
            rollup = (Path("/proc") / str(pid) / "smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(r.split()[1]) for r in rollup.splitlines() if r.startswith("Pss:"))
    return total / 1024


async def measure(task: Task, judging: Judging, folder: Path, episodes: int) -> float:
    peak = [0.0]

    async def weigh() -> None:
        while True:
            peak[0] = max(peak[0], await asyncio.to_thread(read_memory_mib))
            await asyncio.sleep(0.5)

    one, own, _ = await run_many(task, judging, folder / "one", episodes=1, think_s=0.0)
    print(f"loop's own time a turn      {own * 1e3:.1f} ms  (one episode, {one:.1f} s)")
    weighing = asyncio.create_task(weigh())
    wall, own, held = await run_many(
        task, judging, folder / "many", episodes=episodes, think_s=THINKING_S
    )
    weighing.cancel()
    turn_ms = wall / episodes / TURNS * 1e3
    print(f"{episodes} at once                  {wall:.1f} s, {turn_ms:.0f} ms a turn")
    print(f"own time a turn, many       {own * 1e3:.1f} ms  (waiting for others included)")
    print(f"event loop held at most     {held * 1e3:.0f} ms")
    print(f"memory of all processes     {peak[0]:.0f} MiB")
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    task = load_task(EXAMPLE)
    with (
        tempfile.TemporaryDirectory() as name,
        LocalExecutor(workers=given.workers) as executor,
    ):
        folder = Path(name)
        for part in ("one", "many"):
            (folder / part).mkdir()
        judging = FarmJudging(executor=executor, task=EXAMPLE, target=Target.TRN2)
        asyncio.run(measure(task, judging, folder, given.episodes))


if __name__ == "__main__":
    main()
