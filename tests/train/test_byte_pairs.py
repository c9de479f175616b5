"""Our own tokenizer: text comes back, lines stay apart, a prompt begins its dialogue."""

from __future__ import annotations

from nki_agent.train.byte_pairs import make_tokenizer
from nki_agent.train.tokens import Template
from tests.train.world import KERNEL

TEXTS = (KERNEL.format(function="relu"), "Write an NKI kernel.", "x: float32 [128, 64]")


def test_text_comes_back_from_its_tokens() -> None:
    tokenizer = make_tokenizer(TEXTS, vocabulary=400)
    for text in (*TEXTS, "é\n\n  \tnever seen\n"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_no_token_reaches_over_the_end_of_a_line() -> None:
    tokenizer = make_tokenizer(TEXTS, vocabulary=600)
    pieces = [tokenizer.decode([token]) for token in tokenizer(TEXTS[0])["input_ids"]]
    assert all("\n" not in piece[:-1] for piece in pieces)
    assert "import nki.isa as nisa\n" in pieces


def test_a_prompt_has_the_tokens_with_which_its_dialogue_begins() -> None:
    template = Template(make_tokenizer(TEXTS, vocabulary=600), name="own")
    asked = [
        {"role": "system", "content": TEXTS[1]},
        {"role": "user", "content": TEXTS[2]},
    ]
    reply = {"role": "assistant", "content": f"```python\n{TEXTS[0]}```\n"}
    prompt = template.prompt_ids(asked, None)
    whole = template.tokenize([*asked, reply])
    assert whole.ids[: len(prompt)] == prompt
    assert not any(whole.learned[: len(prompt)])
    assert all(whole.learned[len(prompt) : -1])


def test_no_piece_is_longer_than_a_word_where_only_words_were_learned() -> None:
    said = ["return torch.tanh(scale * x)"] * 20
    tokenizer = make_tokenizer(TEXTS, words=said, vocabulary=600)
    pieces = [tokenizer.decode([token]) for token in tokenizer(said[0])["input_ids"]]
    assert {"return", "torch", "tanh", "scale"} <= {piece.strip() for piece in pieces}


def test_what_a_task_says_has_the_same_tokens_in_a_kernel() -> None:
    said = ["return torch.maximum(torch.tanh(scale), 0.125)"] * 20
    kernels = [KERNEL.format(function=name) for name in ("tanh", "relu", "exp")] * 20
    tokenizer = make_tokenizer(kernels, words=said, vocabulary=600)

    def cut(text: str) -> list[str]:
        return [tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]]

    assert "tanh" in cut(said[0])
    assert "tanh" in cut(kernels[0])
    line = "  nisa.tensor_scalar(dst=y_tile, data=x_tile, op0=nl.maximum, operand0=0.125)\n"
    assert "".join(cut(line)) == line
    number = cut("0.125")
    assert cut(said[0])[-1 - len(number) : -1] == number
    assert cut(line)[-1 - len(number) : -1] == number
