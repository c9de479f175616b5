"""How replies are drawn: the likeliest first, each turn by its own chance."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from nki_agent.llm.protocol import Message, Role, TokenLimits
from nki_agent.train.batched import Batch, BatchedModel, Drawn
from nki_agent.train.config import ModelPart
from nki_agent.train.weights import load_model, load_template
from nki_agent.train.writer import Temperatures, Writer
from tests.train.tiny import write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelPart:
    folder = write_model(tmp_path_factory.mktemp("writer") / "model", ["a text of few words"])
    return ModelPart(path=str(folder), dtype="float32")


def make_writer(part: ModelPart, *, first: float, later: float) -> Writer:
    return Writer(
        model=load_model(part),
        tokenizer=load_template(part).tokenizer,
        reply_tokens=12,
        temperatures=Temperatures(first=first, later=later),
        seed=3,
    )


def test_first_reply_is_the_likeliest_and_later_ones_stray(model: ModelPart) -> None:
    prompts = [[5, 6, 7], [8, 9]]
    likeliest = make_writer(model, first=0.0, later=0.0)
    mixed = make_writer(model, first=0.0, later=2.0)
    assert mixed.draw(prompts, turn=0) == likeliest.draw(prompts, turn=0)
    assert mixed.draw(prompts, turn=1) != likeliest.draw(prompts, turn=1)


def test_turns_have_their_own_chance_and_each_comes_again(model: ModelPart) -> None:
    writer = make_writer(model, first=2.0, later=2.0)
    prompts = [[5, 6, 7], [8, 9]]
    turns = [writer.draw(prompts, turn=turn) for turn in range(3)]
    assert turns[0] != turns[1] != turns[2] != turns[0]
    assert [writer.draw(prompts, turn=turn) for turn in range(3)] == turns


def test_batch_says_which_reply_of_its_episodes_is_drawn() -> None:
    seen = []

    def draw(prompts: Sequence[Sequence[int]], *, turn: int) -> list[Drawn]:
        seen.append((turn, len(prompts)))
        return [Drawn(ids=[1]) for _ in prompts]

    async def live(batch: Batch, place: int, turns: int) -> None:
        for _ in range(turns):
            await batch.ask(place, [place])
        batch.leave()

    async def run() -> None:
        batch = Batch(draw)
        batch.enter()
        batch.enter()
        await asyncio.gather(live(batch, 0, 1), live(batch, 1, 3))

    asyncio.run(run())
    assert seen == [(0, 2), (1, 1), (2, 1)]


def test_model_reads_its_last_replies_again_and_no_older_ones(model: ModelPart) -> None:
    seen: list[list[int]] = []
    template = load_template(model)

    def draw(prompts: Sequence[Sequence[int]], *, turn: int) -> list[Drawn]:
        seen.append(list(prompts[0]))
        return [Drawn(ids=[50 + turn, template.tokenizer.eos_token_id])]

    async def run(remembered: int | None) -> list[list[int]]:
        seen.clear()
        batch = Batch(draw)
        batch.enter()
        own = BatchedModel(
            batch, template, place=0, room_tokens=99, name="m", remembered=remembered
        )
        history = [Message(role=Role.USER, content="a text")]
        for number in range(3):
            reply = await own.reply(history, tools=(), limits=TokenLimits())
            history += [
                Message(role=Role.ASSISTANT, content=reply.text),
                Message(role=Role.USER, content=f"{number}"),
            ]
        return list(seen)

    every, last = asyncio.run(run(None)), asyncio.run(run(1))
    assert every[:2] == last[:2]
    assert 50 in every[2]
    assert 50 not in last[2]
    assert 51 in last[2]
    assert last[2][: len(every[0])] == every[0]
