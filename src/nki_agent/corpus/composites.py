"""Operations that are several others, written as those. Needs PyTorch.

Law: each is the mathematics of its name in the plainest steps, whatever PyTorch itself does; an
average is a sum times a number, a softmax exponentials over their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table

Tensor = torch.Tensor


def _mean(x: Tensor, dim: Any = None, keepdim: Any = None, **_: Any) -> Tensor:
    axes = _axes(x, dim)
    return x.sum(axes, keepdim=bool(keepdim)) * (1 / max(1, math.prod(x.shape[a] for a in axes)))


def _axes(x: Tensor, dim: Any) -> list[int]:
    dims = [dim] if isinstance(dim, int) else dim
    return [d % max(1, x.dim()) for d in dims] if dims else list(range(x.dim()))


def _softmax(x: Tensor, dim: int, *_: Any, **__: Any) -> Tensor:
    exps = (x - x.amax(dim, keepdim=True)).exp()
    return exps / exps.sum(dim, keepdim=True)


def _log_softmax(x: Tensor, dim: int, *_: Any, **__: Any) -> Tensor:
    shifted = x - x.amax(dim, keepdim=True)
    return shifted - shifted.exp().sum(dim, keepdim=True).log()


def _logsumexp(x: Tensor, dim: Any, keepdim: Any = None) -> Tensor:
    axes = _axes(x, dim)
    top = x.amax(axes, keepdim=True)
    total = (x - top).exp().sum(axes, keepdim=True).log() + top
    return total if keepdim else total.squeeze(axes)


def _var(x: Tensor, dim: Any = None, *, correction: Any = 1, keepdim: Any = None) -> Tensor:
    return _var_mean(x, dim, correction=correction, keepdim=bool(keepdim))[0]


def _std(x: Tensor, dim: Any = None, *, correction: Any = 1, keepdim: Any = None) -> Tensor:
    return _var(x, dim, correction=correction, keepdim=bool(keepdim)).sqrt()


def _var_mean(
    x: Tensor, dim: Any = None, *, correction: Any = 1, keepdim: Any = None
) -> tuple[Tensor, Tensor]:
    axes = _axes(x, dim)
    count = math.prod(x.shape[a] for a in axes)
    centre = _mean(x, axes, keepdim=True)
    shifted = x - centre
    spread = (shifted * shifted).sum(axes, keepdim=bool(keepdim))
    divisor = max(count - (1 if correction is None else correction), 1e-30)
    return spread * (1 / divisor), centre if keepdim else centre.squeeze(axes)


def _std_mean(x: Tensor, dim: Any = None, **options: Any) -> tuple[Tensor, Tensor]:
    found, centre = _var_mean(x, dim, **options)
    return found.sqrt(), centre


def _vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: Any = None, **_: Any) -> Tensor:  # noqa: A002
    axes = _axes(x, dim)
    if ord == 2:  # noqa: PLR2004 - the Euclidean norm
        return (x * x).sum(axes, keepdim=bool(keepdim)).sqrt()
    if ord == 1:
        return x.abs().sum(axes, keepdim=bool(keepdim))
    if ord == math.inf:
        return x.abs().amax(axes, keepdim=bool(keepdim))
    return x.abs().pow(ord).sum(axes, keepdim=bool(keepdim)).pow(1 / ord)


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    axes = [-1 - i for i in range(len(shape))]
    spread, centre = _var_mean(x, axes, correction=0, keepdim=True)
    scale = torch.rsqrt(spread + eps)
    result = (x - centre) * scale
    result = result if weight is None else result * weight
    return (result if bias is None else result + bias).to(x.dtype), centre, scale


def _group_norm(  # noqa: PLR0913, PLR0917 - PyTorch's own arguments
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    pixels: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    del pixels
    shaped = x.reshape(batch, groups, -1)
    spread, centre = _var_mean(shaped, [-1], correction=0, keepdim=True)
    scale = torch.rsqrt(spread + eps)
    result = ((shaped - centre) * scale).view(x.shape)
    channel = [1, channels] + [1] * (x.dim() - 2)
    result = result if weight is None else result * weight.view(channel)
    result = result if bias is None else result + bias.view(channel)
    return result.to(x.dtype), centre.view(batch, groups), scale.view(batch, groups)


def _batch_norm(  # noqa: PLR0913, PLR0917 - PyTorch's own arguments
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: Any,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    del momentum
    channel = [1, x.shape[1]] + [1] * (x.dim() - 2)
    if training or running_mean is None or running_var is None:
        axes = [0, *range(2, x.dim())]
        spread, centre = _var_mean(x, axes, correction=0)
    else:
        spread, centre = running_var, running_mean
    scale = torch.rsqrt(spread + eps)
    result = (x - centre.view(channel)) * scale.view(channel)
    result = result if weight is None else result * weight.view(channel)
    result = result if bias is None else result + bias.view(channel)
    return result.to(x.dtype), centre, scale


def _batch_norm_inference(  # noqa: PLR0913, PLR0917 - PyTorch's own arguments
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return _batch_norm(x, weight, bias, running_mean, running_var, False, momentum, eps)  # noqa: FBT003


def _addmm(
    bias: Tensor, left: Tensor, right: Tensor, *, beta: Any = 1, alpha: Any = 1, **_: Any
) -> Tensor:
    result: Tensor = bias * beta + (left @ right) * alpha
    return result


def _max_dim(x: Tensor, dim: int, keepdim: Any = None) -> tuple[Tensor, Tensor]:
    return x.amax(dim, keepdim=bool(keepdim)), x.argmax(dim, keepdim=bool(keepdim))


def _min_dim(x: Tensor, dim: int, keepdim: Any = None) -> tuple[Tensor, Tensor]:
    return x.amin(dim, keepdim=bool(keepdim)), x.argmin(dim, keepdim=bool(keepdim))


def _largest(x: Tensor, *args: Any, **options: Any) -> Any:
    return _max_dim(x, *args, **options) if args or options else x.amax(list(range(x.dim())))


def _smallest(x: Tensor, *args: Any, **options: Any) -> Any:
    return _min_dim(x, *args, **options) if args or options else x.amin(list(range(x.dim())))


def _softmax_backward(grad: Tensor, output: Tensor, dim: int, *_: Any) -> Tensor:
    result: Tensor = output * (grad - (grad * output).sum(dim, keepdim=True))
    return result


def _stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return torch.cat([tensor.unsqueeze(dim) for tensor in tensors], dim)


def _repeat(x: Tensor, repeats: Sequence[int]) -> Tensor:
    shape = (1,) * (len(repeats) - x.dim()) + tuple(x.shape)
    pairs = [n for size in shape for n in (1, size)]
    wide = [n for size, times in zip(shape, repeats, strict=True) for n in (times, size)]
    total = [size * times for size, times in zip(shape, repeats, strict=True)]
    return x.reshape(pairs).expand(wide).reshape(total)


def attend(  # noqa: PLR0913 - PyTorch's own arguments
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: Any = None,
    *,
    scale: float | None = None,
    enable_gqa: Any = None,
) -> Tensor:
    """Scaled dot-product attention in plain steps."""
    del dropout_p
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (t.repeat_interleave(times, -3) for t in (key, value))
    scores = (query @ key.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.softmax(scores, -1) @ value


_BY_PYTORCH = (
    "glu", "huber_loss", "smooth_l1_loss", "mse_loss", "soft_margin_loss",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "pixel_shuffle", "pixel_unshuffle",
    "channel_shuffle", "gelu_backward", "native_layer_norm_backward", "native_group_norm_backward",
    "elu_backward", "hardtanh_backward", "leaky_relu_backward", "_log_softmax_backward_data",
    "logit", "sinc", "special_entr", "frac", "renorm", "dist", "nan_to_num",
)  # fmt: skip
"""What PyTorch's own table takes apart well enough."""


def _list_composites() -> dict[str, Callable[..., Any]]:
    known: dict[str, Callable[..., Any]] = {}
    for name in _BY_PYTORCH:
        packet = getattr(torch.ops.aten, name, None)
        if packet is None:
            continue
        overload = getattr(packet, packet.overloads()[0])
        if overload in decomposition_table:
            known[name] = decomposition_table[overload]
    return known


# fmt: off
COMPOSITES: dict[str, Callable[..., Any]] = _list_composites() | {
    "mean": _mean, "_softmax": _softmax, "_safe_softmax": _softmax, "_log_softmax": _log_softmax,
    "logsumexp": _logsumexp, "var": _var, "std": _std, "var_mean": _var_mean, "std_mean": _std_mean,
    "linalg_vector_norm": _vector_norm, "norm": _vector_norm, "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm, "native_batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm_inference,
    "addmm": _addmm, "baddbmm": _addmm, "addmv": _addmm, "max": _largest, "min": _smallest,
    "_softmax_backward_data": _softmax_backward, "stack": _stack, "repeat": _repeat,
}
# fmt: on
"""By the name of the operation."""
