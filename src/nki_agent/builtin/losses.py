"""Losses by row: negative log likelihood, cross-entropies, Huber, divergences; and gated units.

Law: what an operator would first make for all classes and then read at one of them is made for
that one alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nki_agent.builtin.graph import Op, UnsupportedError
from nki_agent.builtin.indexing import take_cols
from nki_agent.builtin.moves import cut
from nki_agent.builtin.rules import Ref, Rules

NONE, MEAN = 0, 1
PAIR = 2


def _reduced(rules: Rules, loss: Ref, reduction: int) -> Ref:
    match reduction:
        case 0:
            return loss
        case 1:
            return rules.mean(loss, None)
        case _:
            return rules.reduce("add", loss, None)


def _nll_loss(
    rules: Rules,
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> tuple[Ref, None]:
    del ignore_index  # A class below 0 is outside of every row; no such one is covered.
    node = rules.node(x)
    if weight is not None or len(node.shape) != PAIR:
        raise UnsupportedError("nll_loss", "it is covered for rows of classes without weights")
    column = Ref(rules.builder.append_axis(target.id))
    if node.op is Op.SOFTMAX and node.function == "log_softmax":
        # log(sum(exp(x))) - x[target]: no other element of the logarithms is needed.
        logits = Ref(node.inputs[0])
        chosen = take_cols(rules, logits, column)
        loss = rules.sub(log_sum_exp(rules, logits), chosen)
    else:
        loss = rules.mul(take_cols(rules, x, column), -1.0)
    return _reduced(rules, rules.squeeze(loss, [-1]), reduction), None


def log_sum_exp(rules: Rules, x: Ref) -> Ref:
    """Of each row, with the last axis kept."""
    top = rules.reduce("maximum", x, [-1], keepdims=True)
    exps = rules.unary("exp", rules.sub(x, top))
    total = rules.reduce("add", exps, [-1], keepdims=True)
    return rules.add(rules.unary("log", total), top)


def _bce_with_logits(
    rules: Rules,
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    pos_weight: Ref | None = None,
    reduction: int = MEAN,
) -> Ref:
    if pos_weight is not None:
        raise UnsupportedError("binary_cross_entropy_with_logits", "pos_weight is not covered")
    # log(1 + exp(x)) - x * target, in the form that no large x makes infinite.
    loss = rules.sub(rules.unary("softplus", x), rules.mul(x, target))
    if weight is not None:
        loss = rules.mul(loss, weight)
    return _reduced(rules, loss, reduction)


def _huber(rules: Rules, x: Ref, y: Ref, reduction: int = MEAN, delta: float = 1.0) -> Ref:
    # With m = min(|d|, delta) both branches are m * (|d| - m / 2).
    error = rules.unary("abs", rules.sub(x, y))
    inner = rules.binary("minimum", error, delta)
    loss = rules.mul(inner, rules.sub(error, rules.mul(inner, 0.5)))
    return _reduced(rules, loss, reduction)


def _smooth_l1(rules: Rules, x: Ref, y: Ref, reduction: int = MEAN, beta: float = 1.0) -> Ref:
    if beta == 0:
        return _reduced(rules, rules.unary("abs", rules.sub(x, y)), reduction)
    return rules.mul(_huber(rules, x, y, reduction, beta), 1 / beta)


def _xlogy(rules: Rules, x: Ref, y: Ref) -> Ref:
    product = rules.mul(x, rules.unary("log", rules.binary("maximum", y, TINY)))
    return rules.where(rules.binary("equal", x, 0.0), 0.0, product)


TINY = 2.0**-63
"""The least value whose logarithm the Scalar Engine gives."""


def _glu(rules: Rules, x: Ref, dim: int = -1) -> Ref:
    size = rules.node(x).shape[dim]
    gate = rules.unary("sigmoid", cut(rules, x, dim, size // 2, size))
    return rules.mul(cut(rules, x, dim, 0, size // 2), gate)


LOSSES: dict[str, Callable[..., Any]] = {
    "nll_loss_forward": _nll_loss,
    "binary_cross_entropy_with_logits": _bce_with_logits,
    "huber_loss": _huber,
    "smooth_l1_loss": _smooth_l1,
    "xlogy": _xlogy,
    "glu": _glu,
}
"""The rule for each operator of this kind."""
