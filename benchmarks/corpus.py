"""Times what a build of the corpus does for each candidate, and how many a second one core takes.

    python -m benchmarks.corpus [--candidates 9500] [--every 95]

from the repository's root plans the candidates of a whole build and takes every n-th: drawing,
loading with filtering, and the fingerprint apart, in milliseconds of one core's time (BLAS and
PyTorch on one thread, as in a worker). The last line is a whole build's time on two cores beside
its limit; what follows (duplicates, choice, writing) is not in it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch

from nki_agent.corpus.build import CANDIDATES, ROOT
from nki_agent.corpus.candidate import Passed
from nki_agent.corpus.draw import draw_candidate, plan_candidates
from nki_agent.corpus.filters import look_at
from nki_agent.corpus.fingerprint import take_fingerprint
from nki_agent.corpus.grammar import read_grammar

LIMIT_S = 300
CORES = 2
LIBRARIES = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")

T = TypeVar("T")


def measure(times_ms: list[float], make: Callable[[], T]) -> T:
    """Call it, and note this process's time."""
    start = time.process_time()
    made = make()
    times_ms.append((time.process_time() - start) * 1e3)
    return made


def use_one_thread() -> None:
    """Start anew where NumPy's libraries, which read it when they are loaded, may take more."""
    if any(os.environ.get(name) != "1" for name in LIBRARIES):
        os.environ.update(dict.fromkeys(LIBRARIES, "1"))
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.corpus", *sys.argv[1:]])
    torch.set_num_threads(1)


def show(name: str, times: list[float]) -> None:
    mean, median = statistics.mean(times), statistics.median(times)
    print(f"{name:<13}{mean:7.2f} ms mean, {median:7.2f} median, {max(times):8.2f} most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=CANDIDATES, help="Of a whole build.")
    parser.add_argument("--every", type=int, default=95, help="Only every n-th of them.")
    given = parser.parse_args()
    use_one_thread()
    grammar = read_grammar(None)
    plan = list(plan_candidates(grammar, number=given.candidates))[:: given.every]
    draw_ms: list[float] = []
    look_ms: list[float] = []
    print_ms: list[float] = []
    importlib.import_module("nki_agent.corpus.warm")  # the first of everything is slow
    for name, index in plan:
        draw = partial(draw_candidate, grammar, grammar.patterns[name], root=ROOT, index=index)
        candidate = measure(draw_ms, draw)
        if candidate is None:
            continue
        found = measure(look_ms, partial(look_at, candidate))
        if isinstance(found, Passed):
            measure(print_ms, partial(take_fingerprint, candidate.source))
    print(f"{len(print_ms)} of {len(look_ms)} candidates passed")
    show("draw", draw_ms)
    show("look_at", look_ms)
    show("fingerprint", print_ms)
    each_s = (sum(draw_ms) + sum(look_ms) + sum(print_ms)) / len(plan) / 1e3
    print(f"a core takes {1 / each_s:.1f} candidates a second")
    whole_s = each_s * given.candidates / CORES
    print(f"{given.candidates:,} on {CORES} cores: {whole_s:.0f} s; limit: {LIMIT_S} s")


if __name__ == "__main__":
    main()
