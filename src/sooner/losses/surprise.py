"""The kernel of the log-sum-exp losses: LSE(s) - s_y, which keeps only s for the backward pass.

PyTorch's cross-entropy keeps the log-softmax and allocates a second tensor of zeros in the backward pass: at a thousand classes
most of its time is spent on fresh memory. Here the forward pass goes through the rows in chunks that stay in the cache, and the
backward pass writes the softmax straight into the gradient.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

_CHUNK = 2**18  # entries
_NARROW = 32  # classes: PyTorch's softmax does not vectorise shorter rows, which is six times slower


def surprise(scores: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
    """LSE(s) - s_y of every row."""
    value: Tensor = _Surprise.apply(scores, labels[:, None])  # type: ignore[no-untyped-call]
    return value


class _Surprise(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, labels: Tensor) -> Tensor:
        rows = max(1, _CHUNK // scores.shape[1])
        kernel = _narrow if scores.shape[1] < _NARROW else _wide
        return torch.cat([kernel(*chunk) for chunk in zip(scores.split(rows), labels.split(rows), strict=True)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor, None]:
        scores, labels, value = ctx.saved_tensors
        minus_one = scores.new_full((1, 1), -1.0).expand(len(labels), 1)
        if torch.is_grad_enabled():  # a second derivative is wanted: nothing may be overwritten
            return scores.softmax(dim=1).scatter_add(1, labels, minus_one) * weights[:, None], None
        if scores.shape[1] < _NARROW:
            gradient = torch.sub(scores, scores.gather(1, labels) + value[:, None]).exp_()
        else:
            gradient = scores.softmax(dim=1)
        return gradient.scatter_add_(1, labels, minus_one).mul_(weights[:, None]), None


def _wide(scores: Tensor, labels: Tensor) -> Tensor:
    return -scores.log_softmax(dim=1).gather(1, labels)[:, 0]


def _narrow(scores: Tensor, labels: Tensor) -> Tensor:
    largest = scores.amax(dim=1, keepdim=True)
    total = (scores - largest).exp_().sum(dim=1, keepdim=True).log_().add_(largest)
    return (total - scores.gather(1, labels))[:, 0]
