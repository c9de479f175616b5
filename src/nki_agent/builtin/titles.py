"""What a stage is called: the operators that it computes."""

from __future__ import annotations

from collections.abc import Sequence

from nki_agent.builtin.capture import Captured

_WORDS_SHOWN = 6
_WORDS = {
    "native layer norm": "layer norm",
    "mm": "matmul",
    "addmm": "linear",
    "bmm": "batched matmul",
}


def describe(captured: Captured, nodes: Sequence[int]) -> str:
    """A few words on what a stage computes, for the comment above it."""
    words: list[str] = []
    for node_id in nodes:
        node = captured.graph[node_id]
        word = node.origin.removeprefix("aten.").removeprefix("numpy.").strip("_").replace("_", " ")
        word = _WORDS.get(word, word)
        if word and (not words or words[-1] != word):
            words.append(word)
    shown = words[:_WORDS_SHOWN]
    return ", ".join(shown) + (", ..." if len(words) > len(shown) else "")
