"""Verdicts a second of the farm, its memory, and a soak with workers killed at random.

Four level-1 tasks at dev and odd sizes, six trials each. Goals:
30 a second with one worker, 60 with two on two cores, a pool of two under 1.5 GB (PSS of all its
processes, the sandboxes' included). Beside it stands the CPU time of a verdict in all processes of
the pool, which other work on the machine changes little. A group is that many kernels of one task
on one root seed, as a training step judges them; goal: 1.5 s for 64 on two cores. The soak kills a
worker after every so many verdicts, drawn from a seed; in the end every kernel must have exactly
one verdict in the log, and memory, descriptors and processes must be flat: it prints them for the
first and the last quarter.
Run: python benchmarks/farm.py
     python benchmarks/farm.py --group 64
     python benchmarks/farm.py --soak 10000 --kills
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nki_agent.base.jsonl import read_lines
from nki_agent.base.seeds import rng_for, seed_for
from nki_agent.farm.job import Job, Judged
from nki_agent.farm.local import LocalExecutor
from nki_agent.farm.log import ResultLog
from nki_agent.farm.run import run_many
from nki_agent.verify.kernel import Kernel

HERE = Path(__file__).resolve().parent
NAMES = ("relu", "rmsnorm", "matmul", "softmax_bf16")
MIB = 1 << 20
KIB = 1 << 10
WARM_ROUNDS = 4
VERDICTS_PER_KILL = 60.0
SAMPLES = 100
"""Looks at memory and descriptors in one soak."""
QUARTERS = 4
ROUNDS_MAX = 5
STEPS = 5
CPU_FIELDS = slice(11, 15)
"""utime, stime, cutime and cstime, counted from behind the command's name (proc(5))."""


class Sample(NamedTuple):
    """What the caller, the pool and its sandboxes hold."""

    caller_mib: float
    pool_mib: float
    descriptors: int
    processes: int


def make_jobs(num: int, *, root: int) -> Iterator[Job]:
    """Jobs of all tasks in turn; no two kernels are equal, so nothing is remembered of one."""
    texts = {n: (HERE / "farm_kernels" / f"{n}.py").read_text("utf-8") for n in NAMES}
    for number in range(num):
        name = NAMES[number % len(NAMES)]
        yield Job(
            id=f"{name}-{number}",
            kernel=Kernel.from_text(f"{texts[name]}\n# {number}\n"),
            task=HERE / "farm_tasks" / f"{name}.py",
            root_seed=seed_for(root, name, number),
        )


def make_group(name: str, num: int, *, step: int) -> Iterator[Job]:
    """Different kernels of one task on one seed."""
    text = (HERE / "farm_kernels" / f"{name}.py").read_text("utf-8")
    for number in range(num):
        yield Job(
            id=f"{name}-{step}-{number}",
            kernel=Kernel.from_text(f"{text}\n# {step} {number}\n"),
            task=HERE / "farm_tasks" / f"{name}.py",
            root_seed=seed_for(step, name),
        )


def find_descendants(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        for child in map(int, children.split()):
            found += find_descendants(child)
    return found


def read_pss_mib(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * KIB / MIB
    return 0.0


def take_sample(executor: LocalExecutor) -> Sample:
    pool = [] if executor.pid is None else find_descendants(executor.pid)
    return Sample(
        caller_mib=read_pss_mib(os.getpid()),
        pool_mib=sum(map(read_pss_mib, pool)),
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
        processes=len(pool),
    )


def read_cpu_seconds(pid: int) -> float:
    """CPU time of a pool so far: its processes, and what they have waited for."""
    ticks = 0
    for process in find_descendants(pid):
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2]
            ticks += sum(map(int, fields.split()[CPU_FIELDS]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(workers: int, *, num: int) -> None:
    with LocalExecutor(workers=workers) as executor:
        start = time.perf_counter()
        for job, end in run_many(make_jobs(WARM_ROUNDS * workers * len(NAMES), root=1), executor):
            assert isinstance(end, Judged), (job.id, end)
            assert end.verdict.right, (job.id, end)
        assert executor.pid is not None
        warm, cpu = time.perf_counter(), read_cpu_seconds(executor.pid)
        walls: dict[str, list[float]] = {}
        for job, end in run_many(make_jobs(num, root=2), executor):
            assert isinstance(end, Judged)
            walls.setdefault(job.task.stem, []).append(end.verdict.wall_ms)
        seconds, cpu = time.perf_counter() - warm, read_cpu_seconds(executor.pid) - cpu
        sample = take_sample(executor)
    print(f"workers {workers}: {num / seconds:6.1f} verdicts a second (goal {30 * workers})")
    print(f"  CPU ms of a verdict: {1e3 * cpu / num:.1f} ({num / cpu:.1f} a second of one core)")
    print("  median ms in the judge: ", end="")
    print(", ".join(f"{name} {statistics.median(ms):.1f}" for name, ms in walls.items()))
    in_judge = sum(map(sum, walls.values())) / 1e3 / workers
    print(f"  share of the time outside the judge: {100 * (1 - in_judge / seconds):.1f} %")
    print(f"  cold start to {WARM_ROUNDS * workers * len(NAMES)} verdicts: {warm - start:.1f} s")
    print(f"  pool {sample.pool_mib:.0f} MiB PSS in {sample.processes} processes (goal 1536)")


def measure_group(num: int, *, workers: int) -> None:
    """The time of each task's group: the least of some steps, each with kernels of its own."""
    with LocalExecutor(workers=workers) as executor:
        for _ in run_many(make_jobs(WARM_ROUNDS * workers * len(NAMES), root=1), executor):
            pass
        assert executor.pid is not None
        for name in NAMES:
            seconds, cpu = [], read_cpu_seconds(executor.pid)
            for step in range(STEPS):
                start = time.perf_counter()
                ends = [end for _, end in run_many(make_group(name, num, step=step), executor)]
                seconds.append(time.perf_counter() - start)
                assert all(isinstance(end, Judged) and end.verdict.right for end in ends)
            cpu = (read_cpu_seconds(executor.pid) - cpu) / (STEPS * num)
            print(
                f"{num} kernels of {name} with {workers} workers: {min(seconds):.2f} s "
                f"(goal 1.5 for 64 with 2), CPU ms of a verdict {1e3 * cpu:.1f}"
            )


class Killer:
    """Kills a worker whenever enough verdicts have come; when and which comes from the seed."""

    def __init__(self, executor: LocalExecutor, *, seed: int) -> None:
        self._executor = executor
        self._rng = rng_for(seed, "kills")
        self._left = self._draw()
        self.num_kills = 0

    def _draw(self) -> int:
        return 1 + int(self._rng.exponential(VERDICTS_PER_KILL))

    def note(self) -> None:
        self._left -= 1
        if self._left > 0 or self._executor.pid is None:
            return
        self._left = self._draw()
        path = Path(f"/proc/{self._executor.pid}/task/{self._executor.pid}/children")
        with suppress(OSError):
            workers = path.read_text(encoding="ascii").split()
            if workers:
                os.kill(int(workers[self._rng.integers(len(workers))]), signal.SIGKILL)
                self.num_kills += 1


def soak(num: int, *, workers: int, kills: bool, seed: int) -> None:
    """Judge `num` kernels; resumed, as a user would, until every one is judged."""
    start = time.perf_counter()
    samples: list[Sample] = []
    others: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, LocalExecutor(workers=workers) as executor:
        path, killer = Path(folder) / "results.jsonl", Killer(executor, seed=seed)
        for number in range(ROUNDS_MAX):
            lost = 0
            with ResultLog(path) as log:
                for count, (_, end) in enumerate(
                    run_many(make_jobs(num, root=3), executor, log=log)
                ):
                    if not isinstance(end, Judged):
                        others[type(end).__name__] += 1
                        lost += 1
                    if kills and not number:
                        killer.note()
                    if not number and count % max(1, num // SAMPLES) == 0:
                        samples.append(take_sample(executor))
            if not lost:
                break
        verdicts = Counter(
            line["id"] for line in read_lines(path) if line["end"]["type"] == "judged"
        )
    seconds = time.perf_counter() - start
    assert set(verdicts) == {job.id for job in make_jobs(num, root=3)}, "verdicts are missing"
    assert set(verdicts.values()) == {1}, "verdicts are doubled"
    print(f"{num} verdicts, one each, in {seconds:.0f} s; {killer.num_kills} workers killed")
    print(f"  ends that were no verdict and were run again: {dict(others) or 'none'}")
    quarter = max(1, len(samples) // QUARTERS)
    for field in Sample._fields:
        first = statistics.median(getattr(s, field) for s in samples[:quarter])
        last = statistics.median(getattr(s, field) for s in samples[-quarter:])
        print(f"  {field:<12} first quarter {first:8.1f}  last quarter {last:8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Verdicts a second of the farm.")
    parser.add_argument("--num", type=int, default=240, help="verdicts to time")
    parser.add_argument("--workers", type=int, default=2, help="workers of the soak and of a group")
    parser.add_argument("--group", type=int, default=0, help="kernels of one task to time")
    parser.add_argument("--soak", type=int, default=0, help="verdicts of the soak")
    parser.add_argument("--kills", action="store_true", help="kill workers meanwhile")
    parser.add_argument("--seed", type=int, default=0, help="what the kills are drawn from")
    asked = parser.parse_args()
    if asked.soak:
        soak(asked.soak, workers=asked.workers, kills=asked.kills, seed=asked.seed)
        return
    if asked.group:
        measure_group(asked.group, workers=asked.workers)
        return
    for workers in (1, 2):
        measure(workers, num=asked.num)


if __name__ == "__main__":
    main()
