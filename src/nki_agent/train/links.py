"""Training over slow links: what is sent for a gradient, by PyTorch's own communication hooks.

Law: every process applies the same sum, so that their models stay equal; what Top-K does not send
now it keeps, and sends later. How much it sends follows the speed that it measures on each of its
links. A slow link may cost time and rounding, never a part of the gradient.
"""

# No postponed annotations here: PyTorch reads those of a hook when it is registered.

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.utils import average_parameters
from torch.nn.parallel import DistributedDataParallel

from nki_agent.base.clock import Clock
from nki_agent.train.config import Compression, LinksPart

NS_PER_S: Final = 1e9
BYTE_BITS: Final = 8
VALUE_BITS: Final = 16
"""Values travel in bfloat16; what rounding takes off is kept like what is not sent."""
PLACE_BITS: Final = 32
"""Of one place, where few are sent; else each element has a mark of one bit: sent or not."""
DENSE_BITS: Final = 32
SMOOTHING: Final = 0.3
"""Weight of the newest measurement of a link's speed."""
POWER_SGD_START: Final = 10
"""Steps with whole gradients first: the approximation needs a direction to begin with."""


@dataclass(slots=True, kw_only=True)
class TopK:
    """State of the Top-K hook of one process."""

    part: LinksPart
    clock: Clock
    bits: list[float] = field(default_factory=list)
    """For each element of a gradient, sent or not, what each process sends."""
    speeds: dict[int, float] = field(default_factory=dict)
    """Bytes a second from each process, as they arrive here."""
    residuals: dict[int, torch.Tensor] = field(default_factory=dict)
    """By bucket: what was not sent yet."""
    step: int = 0
    _mark_ns: int = 0
    _waited_ns: int = 0
    _compute_ns: int = 0
    _elems: int = 0

    def begin(self) -> None:
        """The first bucket of a step: how long was computed since the last one, then agree."""
        now_ns = self.clock.monotonic_ns()
        if self._mark_ns:
            self._compute_ns = max(now_ns - self._mark_ns - self._waited_ns, 1)
        if not self.bits:
            self.bits = [float(DENSE_BITS)] * dist.get_world_size()
        elif self.step % self.part.agree_every == 0:
            self._agree()
        self._mark_ns, self._waited_ns, self._elems = now_ns, 0, 0
        self.step += 1

    def _agree(self) -> None:
        """Tell everyone what was measured; all come to the same shares from it."""
        world = dist.get_world_size()
        own = [self._compute_ns / NS_PER_S, *(self.speeds.get(r, 0.0) for r in range(world))]
        found = [torch.zeros(len(own), dtype=torch.float64) for _ in range(world)]
        dist.all_gather(found, torch.tensor(own, dtype=torch.float64))
        rows = [row.tolist() for row in found]
        for rank in range(world):
            slowest = min(rows[other][1 + rank] for other in range(world) if other != rank)
            carried = self.part.time_share * rows[rank][0] * slowest / (world - 1)
            wanted = carried * BYTE_BITS / self._elems
            self.bits[rank] = max(wanted, bits_for(self.least_share))

    @property
    def least_share(self) -> float:
        """What each must send, however slow its link is."""
        begun = self.step / self.part.warmup_steps if self.part.warmup_steps else 1.0
        return float(self.part.ratio_min ** min(begun, 1.0))

    def count_of(self, rank: int, elems: int) -> int:
        """Elements of a bucket that a process sends."""
        return min(max(1, int(share_for(self.bits[rank]) * elems)), elems)

    @property
    def is_dense(self) -> bool:
        """Whether all links carry whole gradients, as they are, in the time that is theirs."""
        return min(self.bits) >= DENSE_BITS

    def note_link(self, peer: int, num_bytes: int, elapsed_ns: int) -> None:
        """So much has come from a peer in this time."""
        speed = num_bytes * NS_PER_S / max(elapsed_ns, 1)
        old = self.speeds.get(peer, speed)
        self.speeds[peer] = (1 - SMOOTHING) * old + SMOOTHING * speed

    def note_wait(self, start_ns: int, elems: int) -> None:
        """The time since `start_ns` went into a bucket of so many elements."""
        self._waited_ns += self.clock.monotonic_ns() - start_ns
        self._elems += elems


def bits_for(share: float) -> float:
    """What is sent for each element of a gradient when this share of them is."""
    return min(share * (VALUE_BITS + PLACE_BITS), share * VALUE_BITS + 1)


def share_for(bits: float) -> float:
    """The other way round; above 1 where there is room for more than all."""
    return max(bits / (VALUE_BITS + PLACE_BITS), (bits - 1) / VALUE_BITS)


def bf16_hook(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """The mean in bfloat16. PyTorch's own hook of this kind refuses gloo."""
    half = bucket.buffer().to(torch.bfloat16) / dist.get_world_size()
    sending: Any = dist.all_reduce(half, async_op=True)
    whole: torch.futures.Future[torch.Tensor] = sending.get_future().then(
        lambda done: done.value()[0].to(bucket.buffer().dtype)
    )
    return whole


def top_k_hook(state: TopK, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """The mean of everyone's largest elements; the rest waits in this process."""
    if bucket.index() == 0:
        state.begin()
    start_ns = state.clock.monotonic_ns()
    whole = bucket.buffer().float()
    residual = state.residuals.get(bucket.index())
    # The first step may cut gradients into other buckets than the later ones.
    if residual is not None and residual.shape == whole.shape:
        whole = whole + residual
    mean = _mean_dense(state, whole) if state.is_dense else _mean_sparse(state, bucket, whole)
    state.note_wait(start_ns, whole.numel())
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(mean.to(bucket.buffer().dtype))
    return done


def _mean_dense(state: TopK, whole: torch.Tensor) -> torch.Tensor:
    start_ns = state.clock.monotonic_ns()
    dist.all_reduce(whole)
    elapsed_ns = state.clock.monotonic_ns() - start_ns
    for peer in _peers():
        state.note_link(peer, whole.numel() * DENSE_BITS // BYTE_BITS, elapsed_ns)
    state.residuals.clear()
    return whole / dist.get_world_size()


def _mean_sparse(state: TopK, bucket: Any, whole: torch.Tensor) -> torch.Tensor:
    own, elems = dist.get_rank(), whole.numel()
    count = state.count_of(own, elems)
    places = whole.abs().topk(count, sorted=False).indices.sort().values
    values = whole[places].to(torch.bfloat16)
    kept = whole.clone()
    kept[places] -= values.float()
    state.residuals[bucket.index()] = kept
    packed = torch.cat((_pack_places(places, elems), values.view(torch.uint8)))
    boxes = {own: packed, **_exchange(state, packed, elems)}
    total = torch.zeros_like(whole)
    # In the order of ranks: sums of floats depend on it, and all must get the same.
    for rank in sorted(boxes):
        _add(boxes[rank], total, count=state.count_of(rank, elems))
    return total / dist.get_world_size()


def _exchange(state: TopK, packed: torch.Tensor, elems: int) -> dict[int, torch.Tensor]:
    """Send to all, receive from all; each process sends as much as was agreed."""
    start_ns = state.clock.monotonic_ns()
    inbox = {
        peer: torch.empty(_size_bytes(state.count_of(peer, elems), elems), dtype=torch.uint8)
        for peer in _peers()
    }
    receiving: list[tuple[int, Any]] = [(p, dist.irecv(box, src=p)) for p, box in inbox.items()]
    sending: list[Any] = [dist.isend(packed, dst=peer) for peer in inbox]
    for peer, work in receiving:
        work.wait()
        state.note_link(peer, inbox[peer].numel(), state.clock.monotonic_ns() - start_ns)
    for work in sending:
        work.wait()
    return inbox


def _place_bytes(count: int, elems: int) -> int:
    """What places take, in the shorter of both forms."""
    return min(count * PLACE_BITS // BYTE_BITS, math.ceil(elems / BYTE_BITS))


def _size_bytes(count: int, elems: int) -> int:
    return _place_bytes(count, elems) + count * VALUE_BITS // BYTE_BITS


def _pack_places(places: torch.Tensor, elems: int) -> torch.Tensor:
    if places.numel() * PLACE_BITS // BYTE_BITS == _place_bytes(places.numel(), elems):
        return places.to(torch.int32).view(torch.uint8)
    marks = np.zeros(elems, dtype=np.bool_)
    marks[places.numpy()] = True
    return torch.from_numpy(np.packbits(marks))


def _add(packed: torch.Tensor, total: torch.Tensor, *, count: int) -> None:
    """Put the values of one process in their places of the sum."""
    elems = total.numel()
    cut = _place_bytes(count, elems)
    # A copy, since a cut need not lie where values of two bytes may begin.
    values = packed[cut:].clone().view(torch.bfloat16).float()
    if cut == count * PLACE_BITS // BYTE_BITS:
        places = packed[:cut].view(torch.int32).long()
    else:
        marks = np.unpackbits(packed[:cut].numpy(), count=elems)
        places = torch.from_numpy(marks.nonzero()[0])
    total[places] += values


def _peers() -> list[int]:
    return [rank for rank in range(dist.get_world_size()) if rank != dist.get_rank()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What must be called after each step, and after the last one."""

    after_step: Callable[[], None]
    after_last: Callable[[], None]


def attach(model: DistributedDataParallel, part: LinksPart, *, clock: Clock) -> Attached:
    """Register the hook that the config names."""
    match part.compression:
        case Compression.NONE:
            return NOTHING
        case Compression.BF16:
            model.register_comm_hook(None, bf16_hook)
            return NOTHING
        case Compression.TOP_K:
            model.register_comm_hook(TopK(part=part, clock=clock), top_k_hook)
            return NOTHING
        case Compression.POWER_SGD:
            state = PowerSGDState(
                process_group=None,
                matrix_approximation_rank=part.rank,
                start_powerSGD_iter=POWER_SGD_START,
            )
            model.register_comm_hook(state, powerSGD_hook)
            return NOTHING
        case Compression.LOCAL_SGD:
            return _attach_local(model, part)


def _attach_local(model: DistributedDataParallel, part: LinksPart) -> Attached:
    """Each process steps alone; every so many steps all take the mean of their weights."""
    alone: Any = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    make: Any = PostLocalSGDState
    state = make(
        process_group=None, subgroup=alone[dist.get_rank()], start_localSGD_iter=part.every
    )
    model.register_comm_hook(state, post_localSGD_hook)
    averager = PeriodicModelAverager(period=part.every, warmup_steps=part.every)

    def average() -> None:
        averager.average_parameters(model.parameters())

    everyone = dist.group.WORLD
    assert everyone is not None

    def average_last() -> None:
        average_parameters(iter(model.parameters()), everyone)

    return Attached(after_step=average, after_last=average_last)


def _do_nothing() -> None:
    """Whole gradients need nothing after a step."""


NOTHING: Final = Attached(after_step=_do_nothing, after_last=_do_nothing)
