"""Training over slow links: bytes, time and loss of each way to send gradients.

Two processes train one small Qwen3 on the text of the benchmark's tasks, over connections that
the operating system paces to 10, 100 and 1000 Mbit/s each way. Each line is one way at one speed:
what one process sent a step, the time of a step in the second half of the run, how many times
faster than whole gradients, the loss on held-out text after equal steps, and the seconds after
which the loss of training came within 2 % of where whole gradients ended.

    python -m benchmarks.links [--steps N] [--mbit 10 ...] [--only top-k ...] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.pacing import count_sent_bytes, pace
from nki_agent.base.clock import SystemClock
from nki_agent.base.seeds import rng_for
from nki_agent.train.config import Compression, LinksPart
from nki_agent.train.links import attach

PROCESSES = 2
ROWS, LENGTH = 2, 128
HELD_OUT_ROWS = 128
VOCABULARY = 256
LEARNING_RATE = 3e-3
WARM_UP_STEPS = 20
AVERAGED_STEPS = 50
NEAR = 1.02
"""A loss is as good as another where it is at most so many times as large."""
MBIT = 1_000_000
SPEEDS_MBIT = (10, 100, 1000)
MS_NS, S_MS = 1e6, 1e3
TASKS = Path(__file__).parent.parent / "src" / "nki_agent" / "bench" / "tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One way at one speed."""

    compression: Compression
    mbit: int
    steps: int


def make_model() -> Any:
    """A transformer of about 90 thousand parameters, the same in every process."""
    torch.manual_seed(0)
    make_config: Any = Qwen3Config
    make_weights: Any = Qwen3ForCausalLM
    return make_weights(
        make_config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )
    )


def read_text() -> np.ndarray[Any, Any]:
    """The bytes of all task files."""
    data = b"".join(path.read_bytes() for path in sorted(TASKS.glob("*.py")))
    return np.frombuffer(data, dtype=np.uint8)


def draw(text: np.ndarray[Any, Any], rows: int, *names: str | int) -> torch.Tensor:
    """Random windows of the text."""
    starts = rng_for(0, "links", *names).integers(0, len(text) - LENGTH, size=rows)
    return torch.tensor(np.stack([text[s : s + LENGTH] for s in starts]).astype(np.int64))


def train(rank: int, trial: Trial, store: str, out: str) -> None:
    """One process of a trial; the first writes what was measured."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=PROCESSES)
    dist.barrier()
    pace(trial.mbit * MBIT)
    clock = SystemClock()
    model = DistributedDataParallel(make_model())
    attached = attach(model, LinksPart(compression=trial.compression), clock=clock)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: rate(n, trial.steps))
    text = read_text()
    held_out, rest = text[: len(text) // 10], text[len(text) // 10 :]
    times, losses, begun = [], [], count_sent_bytes()
    for step in range(trial.steps):
        start_ns = clock.monotonic_ns()
        batch = draw(rest, ROWS, rank, step)
        optimizer.zero_grad()
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        attached.after_step()
        times.append((clock.monotonic_ns() - start_ns) / MS_NS)
    attached.after_last()
    sent = count_sent_bytes() - begun
    batch = draw(held_out, HELD_OUT_ROWS, "held out")
    with torch.no_grad():
        loss = model.module(input_ids=batch, labels=batch).loss.item()
    if rank == 0:
        record = {
            "compression": trial.compression.value,
            "mbit": trial.mbit,
            "sent_kb_per_step": sent / trial.steps / 1e3,
            "step_ms": median(times[trial.steps // 2 :]),
            "loss": loss,
            "times_ms": times,
            "losses": losses,
        }
        Path(out).write_text(json.dumps(record), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def rate(step: int, steps: int) -> float:
    """The share of the peak rate: up in a few steps, then down along a cosine."""
    return min(1.0, (step + 1) / WARM_UP_STEPS) * (1 + math.cos(math.pi * step / steps)) / 2


def smooth(losses: list[float]) -> list[float]:
    """The mean of each step's loss and those before it."""
    return [
        float(np.mean(losses[max(0, n - AVERAGED_STEPS) : n])) for n in range(1, len(losses) + 1)
    ]


def find_seconds(found: dict[str, Any], whole: dict[str, Any]) -> float | None:
    """When the loss of training came near to where whole gradients ended; None where it did not."""
    wanted = NEAR * smooth(whole["losses"])[-1]
    reached = (n for n, loss in enumerate(smooth(found["losses"]), start=1) if loss <= wanted)
    steps = next(reached, None)
    return None if steps is None else float(sum(found["times_ms"][:steps])) / S_MS


def run(trial: Trial) -> dict[str, Any]:
    """What a trial measured."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out.json")
        start: Any = spawn
        start(train, args=(trial, str(Path(folder) / "store"), out), nprocs=PROCESSES)
        found: dict[str, Any] = json.loads(Path(out).read_text(encoding="utf-8"))
        return found


def main() -> None:
    """Run all trials and print a table, or JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--mbit", type=int, nargs="+", default=list(SPEEDS_MBIT))
    parser.add_argument("--only", nargs="+", default=[c.value for c in Compression])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    head = ("Mbit/s", "sent", "KB/step", "ms/step", "faster", "loss", "loss/whole", "s to loss")
    if not asked.json:
        print("{:>6} {:<10} {:>9} {:>9} {:>7} {:>7} {:>10} {:>10}".format(*head))
    for mbit in asked.mbit:
        whole: dict[str, Any] = {}
        for name in asked.only:
            found = run(Trial(compression=Compression(name), mbit=mbit, steps=asked.steps))
            whole = whole or found
            found["faster"] = whole["step_ms"] / found["step_ms"]
            found["loss_ratio"] = found["loss"] / whole["loss"]
            found["seconds_to_loss"] = find_seconds(found, whole)
            print(json.dumps(found) if asked.json else write(found), flush=True)


def write(found: dict[str, Any]) -> str:
    """A line for people."""
    seconds = found["seconds_to_loss"]
    reached = "never" if seconds is None else f"{seconds:.0f}"
    return (
        f"{found['mbit']:>6} {found['compression']:<10} {found['sent_kb_per_step']:>9.1f}"
        f" {found['step_ms']:>9.1f} {found['faster']:>7.2f} {found['loss']:>7.4f}"
        f" {found['loss_ratio']:>10.4f} {reached:>10}"
    )


if __name__ == "__main__":
    main()
