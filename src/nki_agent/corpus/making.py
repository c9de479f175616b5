"""What a process makes for one task: the rows of every kind that is asked for, and their proofs.

Law: a row's last kernel was judged right in its episode, or is the solution. A kind that gives
nothing says why. The same order gives the same rows.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from nki_agent.agent.episode import Mode
from nki_agent.base.seeds import rng_for, seed_for
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import (
    SCHEMA,
    ChatMessage,
    ChatRow,
    Draft,
    Kind,
    make_row,
    train_all,
)
from nki_agent.corpus.desk import Desk
from nki_agent.corpus.episodes import Setting, Told, tell
from nki_agent.corpus.record import CorpusTask, Solution
from nki_agent.corpus.repairing import make_repairs
from nki_agent.corpus.short import BYTES_MAX, short_form
from nki_agent.corpus.solving import look_at_perf, make_solution
from nki_agent.corpus.speeding import make_optimization
from nki_agent.corpus.workers import Answerer
from nki_agent.llm.protocol import Role
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Verdict

MADE_KINDS: Final = (Kind.AUTHOR, Kind.SINGLE_SHOT, Kind.REPAIR, Kind.OPTIMIZE, Kind.SHORT)
"""Those that need no other model."""
OPTIMIZED_SHARE: Final = 1 / 3
"""Of the tasks: a search takes longer than all other kinds together."""
ENTRY: Final = "nki_agent.corpus.making:make_maker"


class MakeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One task, its solution, and the kinds that are wanted of it."""

    row: CorpusTask
    solution: Solution
    kinds: tuple[Kind, ...]
    root_seed: int
    repairs: int
    allow_unsandboxed: bool = False


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind gave for one task; a line of the log."""

    schema: int = SCHEMA
    task: str
    task_sha256: str
    kind: Kind
    """What was asked for; a sampled episode that failed has rows of another kind."""
    source: str = ""
    """Of a sampled episode: `<model>/<number>`."""
    root_seed: int
    rows: tuple[ChatRow, ...] = ()
    proofs: tuple[Solution, ...] = ()
    """Of last kernels that are no solution yet."""
    skipped: dict[str, int] = {}
    """Why there are no more rows."""


def make_maker() -> Answerer:
    """What a process of the crew does."""
    desks: dict[bool, Desk] = {}

    def answer(data: bytes) -> bytes:
        order = msgspec.msgpack.decode(data, type=MakeOrder)
        desk = desks.setdefault(
            order.allow_unsandboxed, Desk(allow_unsandboxed=order.allow_unsandboxed)
        )
        return msgspec.msgpack.encode([make_kind(order, kind, desk) for kind in order.kinds])

    return answer


def make_kind(order: MakeOrder, kind: Kind, desk: Desk) -> Made:
    """The rows of one kind."""
    match kind:
        case Kind.AUTHOR:
            return _make_author(order, Mode.LOOP, desk)
        case Kind.SINGLE_SHOT:
            return _make_author(order, Mode.SINGLE_SHOT, desk)
        case Kind.REPAIR:
            return _make_repair(order, desk)
        case Kind.OPTIMIZE:
            return _make_optimize(order, desk)
        case Kind.SHORT:
            return _make_short(order, desk)
        case Kind.SAMPLED | Kind.CLIMB:
            raise ValueError(f"{kind.value} needs a model")


def _make_author(order: MakeOrder, mode: Mode, desk: Desk) -> Made:
    kind = Kind.AUTHOR if mode is Mode.LOOP else Kind.SINGLE_SHOT
    task, target = desk.open(order.row), Target(order.solution.target)
    seed = seed_for(order.root_seed, order.row.id, kind.value)
    setting = Setting(task=task, target=target, root_seed=seed, mode=mode)
    told = tell(setting, BuiltinAuthor(task, target=target), desk)
    kernel, verdict = told.episode.kernel, told.episode.verdict
    if not told.episode.is_solved or kernel is None or verdict is None:
        return _made(order, kind, skipped=Counter({f"ended {told.episode.end.value}": 1}))
    draft = _draft(kind, told, kernel)
    return _made(order, kind, drafts=(draft,), proofs=(_prove(order, kernel, verdict, desk),))


def _draft(kind: Kind, told: Told, kernel: str) -> Draft:
    return Draft(
        kind=kind,
        author="builtin",
        messages=told.messages,
        tools=told.tools,
        trained=train_all(told.messages),
        prompt_hash=told.prompt_hash,
        kernel=kernel,
        stages=told.stages,
    )


def _make_repair(order: MakeOrder, desk: Desk) -> Made:
    found = make_repairs(
        order.row, order.solution, number=order.repairs, root_seed=order.root_seed, desk=desk
    )
    return _made(order, Kind.REPAIR, drafts=tuple(found.drafts), skipped=found.discarded)


def _make_optimize(order: MakeOrder, desk: Desk) -> Made:
    rng = rng_for(order.root_seed, order.row.id, "whether to optimize")
    if rng.random() >= OPTIMIZED_SHARE:
        return _made(order, Kind.OPTIMIZE, skipped=Counter({"not chosen": 1}))
    draft, verdict, why = make_optimization(
        order.row, order.solution, root_seed=order.root_seed, desk=desk
    )
    if draft is None or verdict is None:
        return _made(order, Kind.OPTIMIZE, skipped=Counter({why: 1}))
    proof = _prove(order, draft.kernel, verdict, desk)
    return _made(order, Kind.OPTIMIZE, drafts=(draft,), proofs=(proof,))


def _make_short(order: MakeOrder, desk: Desk) -> Made:
    task, target = desk.open(order.row), Target(order.solution.target)
    found = short_form(task, order.solution)
    texts = (found.prompt.system + found.prompt.user, found.kernel)
    if max(len(text.encode()) for text in texts) > BYTES_MAX:
        return _made(order, Kind.SHORT, skipped=Counter({f"over {BYTES_MAX} bytes": 1}))
    seed = seed_for(order.root_seed, order.row.id, Kind.SHORT.value)
    verdict = desk.judge_for(target).judge(Kernel.from_text(found.kernel), task, root_seed=seed)
    if not verdict.right:
        return _made(order, Kind.SHORT, skipped=Counter({f"is {verdict.stage.value}": 1}))
    messages = (
        ChatMessage(role=Role.SYSTEM, content=found.prompt.system),
        ChatMessage(role=Role.USER, content=found.prompt.user),
        ChatMessage(role=Role.ASSISTANT, content=f"```python\n{found.kernel}```\n"),
    )
    draft = Draft(
        kind=Kind.SHORT,
        author="builtin",
        messages=messages,
        trained=train_all(messages),
        prompt_hash=found.prompt.hash,
        kernel=found.kernel,
    )
    proof = _prove(order, found.kernel, verdict, desk)
    return _made(order, Kind.SHORT, drafts=(draft,), proofs=(proof,))


def _prove(order: MakeOrder, kernel: str, verdict: Verdict, desk: Desk) -> Solution:
    """The row of a last kernel; the solution itself where it is that."""
    if kernel == order.solution.kernel:
        return order.solution
    judge = desk.judge_for(Target(order.solution.target))
    look = look_at_perf(judge, kernel, desk.open(order.row))
    return make_solution(order.row, kernel, verdict, author="builtin", look=look)


def _made(
    order: MakeOrder,
    kind: Kind,
    *,
    drafts: tuple[Draft, ...] = (),
    proofs: tuple[Solution, ...] = (),
    skipped: Counter[str] | None = None,
) -> Made:
    solution = order.solution
    return Made(
        task=order.row.id,
        task_sha256=order.row.sha256,
        kind=kind,
        root_seed=order.root_seed,
        rows=tuple(
            make_row(order.row, draft, dialect=solution.dialect, target=solution.target)
            for draft in drafts
        ),
        proofs=tuple(proof for proof in proofs if proof != solution),
        skipped=dict(skipped or {}),
    )
