"""Slow links: whatever is sent, all processes have the same weights, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from nki_agent.base.clock import FakeClock
from nki_agent.train.config import Compression, LinksPart
from nki_agent.train.links import TopK, attach, bits_for, share_for, top_k_hook

PROCESSES = 2
STEPS = 24
ELEMS, TURNS = 67, 128
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("train")]


def begin(rank: int, store: str) -> None:
    """Join the others."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=PROCESSES)


def end() -> None:
    """Leave together: gloo aborts a process whose peer has gone while it still talks to it."""
    dist.barrier()
    dist.destroy_process_group()


def train(rank: int, compression: Compression, store: str, out: str) -> None:
    """Fit a line by two processes that see other points."""
    begin(rank, store)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    attached = attach(model, LinksPart(compression=compression, every=4), clock=FakeClock())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    wanted = torch.randn(64, 64)
    torch.manual_seed(rank)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(32, 64)
        loss = (model(x) - x @ wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        attached.after_step()
        losses.append(float(loss))
    attached.after_last()
    torch.save({"weights": model.module.state_dict(), "losses": losses}, f"{out}{rank}")
    end()


def run(function: Any, folder: Path, *arguments: Any) -> list[dict[str, Any]]:
    """What each process saved."""
    start: Any = spawn
    start(function, args=(*arguments, str(folder / "store"), str(folder / "out")), nprocs=PROCESSES)
    return [torch.load(folder / f"out{rank}") for rank in range(PROCESSES)]


@pytest.mark.parametrize("compression", Compression)
def test_all_processes_have_the_same_weights_and_learn(
    compression: Compression, tmp_path: Path
) -> None:
    first, second = run(train, tmp_path, compression)
    for name, weights in first["weights"].items():
        assert torch.equal(weights, second["weights"][name])
    assert first["losses"][-1] < 0.9 * first["losses"][0]


def send_constant(rank: int, share: float, store: str, out: str) -> None:
    """Give the hook one gradient again and again, of which it may send a share at a time."""
    begin(rank, store)
    gradient = torch.linspace(-1.0, 1.0, ELEMS) * (rank + 1)
    state = TopK(part=LinksPart(agree_every=1000), clock=FakeClock())
    state.bits, state.step = [bits_for(share)] * PROCESSES, 1
    total = torch.zeros(ELEMS)
    for _ in range(TURNS):
        total += top_k_hook(state, Bucket(gradient)).value()
    torch.save({"total": total, "kept": state.residuals[0], "gradient": gradient}, f"{out}{rank}")
    end()


class Bucket:
    """What DDP hands to a hook: one bucket."""

    def __init__(self, gradient: torch.Tensor) -> None:
        self._gradient = gradient.clone()

    def index(self) -> int:
        """The first and only one."""
        return 0

    def buffer(self) -> torch.Tensor:
        """Its elements."""
        return self._gradient


@pytest.mark.parametrize("share", [1 / 64, 1 / 8, 1 / 2])
def test_what_top_k_does_not_send_now_it_sends_later(share: float, tmp_path: Path) -> None:
    first, second = run(send_constant, tmp_path, share)
    assert torch.equal(first["total"], second["total"])
    given = TURNS * (first["gradient"] + second["gradient"])
    kept = first["kept"] + second["kept"]
    torch.testing.assert_close(2 * first["total"] + kept, given, rtol=1e-4, atol=1e-3)
    assert float(kept.abs().max()) > 0


def adapt(rank: int, store: str, out: str) -> None:
    """Agree on shares when the second process's link is a tenth as fast."""
    begin(rank, store)
    state = TopK(part=LinksPart(time_share=0.5, ratio_min=0.001, warmup_steps=0), clock=FakeClock())
    state.bits = [32.0, 32.0]
    other = 1 - rank
    state.speeds = {other: 1e6 if other == 0 else 1e5}
    state._compute_ns, state._elems = 10**9, 1_000_000
    state._agree()
    torch.save({"bits": state.bits}, f"{out}{rank}")
    end()


def test_the_least_share_falls_from_all_to_its_floor() -> None:
    state = TopK(part=LinksPart(ratio_min=0.25, warmup_steps=100), clock=FakeClock())
    found = []
    for state.step in (0, 50, 100, 1000):
        found.append(state.least_share)
    assert found == pytest.approx([1.0, 0.5, 0.25, 0.25])
    at_once = TopK(part=LinksPart(ratio_min=0.25, warmup_steps=0), clock=FakeClock())
    assert at_once.least_share == pytest.approx(0.25)


def test_a_slower_link_carries_a_smaller_share_and_all_know_it(tmp_path: Path) -> None:
    first, second = run(adapt, tmp_path)
    assert first["bits"] == second["bits"]
    # Half a second at 1 MB/s is 500 KB: four bits for each of a million elements.
    assert first["bits"] == pytest.approx([4.0, 0.4])


@pytest.mark.parametrize(("share", "bits"), [(1 / 48, 1.0), (1 / 32, 1.5), (1 / 4, 5.0), (1.0, 17)])
def test_places_take_the_shorter_of_both_forms(share: float, bits: float) -> None:
    assert bits_for(share) == pytest.approx(bits)
    assert share_for(bits) == pytest.approx(share)
