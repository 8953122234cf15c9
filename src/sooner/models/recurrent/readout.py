"""From hidden states to logits: batch norm, activation, linear layer without bias, fused in training.

There is a row for each position of each window, so each pass over them takes time. The fused form goes through the rows in
blocks that stay in the cache, keeps only the hidden states, and recomputes the activation in the backward pass.

    z = gamma (h - mean) / sqrt(var + eps) + beta        logits = phi(z) W'
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sooner.models.recurrent.activations import Activation
from sooner.models.recurrent.fused.build import fused_for
from sooner.models.recurrent.fused.readout import fused_readout
from sooner.models.recurrent.uncompiled import uncompiled

_BLOCK = 2**19  # entries

HiddenRows = Float[Tensor, "rows hidden"]


class Readout(nn.Module):
    """Batch norm, activation, linear layer without bias: 2H + HK parameters."""

    def __init__(self, hidden: int, classes: int, activation: Activation) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(hidden)
        self.linear = nn.Linear(hidden, classes, bias=False)
        self.activation = activation

    def evaluated(self, hidden: HiddenRows) -> Float[Tensor, "rows classes"]:
        """The logits of each row with the running mean and variance, even in training mode."""
        norm = self.norm
        normed = nn.functional.batch_norm(
            hidden, norm.running_mean, norm.running_var, norm.weight, norm.bias, training=False, eps=norm.eps
        )
        return self.linear(self.activation(normed))  # type: ignore[no-any-return]

    def evaluated_weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """What `evaluated` reads: gamma, beta, running mean, running variance, and the weights of the linear layer."""
        norm = self.norm
        mean, var = norm.running_mean, norm.running_var
        assert mean is not None
        assert var is not None
        return norm.weight, norm.bias, mean, var, self.linear.weight

    @uncompiled
    def forward(self, hidden: HiddenRows) -> Float[Tensor, "rows classes"]:
        """The logits of each row. In training, the mean and variance of the rows are used, and the running ones updated."""
        if not self.training:
            return self.evaluated(hidden)
        fused = fused_for(hidden, self.activation)
        if fused is not None:
            logits, mean, var = fused_readout(
                fused,
                hidden,
                self.norm.weight,
                self.norm.bias,
                self.linear.weight,
                eps=self.norm.eps,
                activation=self.activation,
            )
            self._update_running(mean, var, len(hidden))
            return logits
        mean, var = _mean_and_variance(hidden.detach())
        self._update_running(mean, var, len(hidden))
        plain: Tensor = _NormedReadout.apply(  # type: ignore[no-untyped-call]
            hidden, self.norm.weight, self.norm.bias, self.linear.weight, (mean, var + self.norm.eps), self.activation
        )
        return plain

    def _update_running(self, mean: Tensor, var: Tensor, rows: int) -> None:
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        norm.num_batches_tracked += 1
        share = 0.1 if norm.momentum is None else norm.momentum
        norm.running_mean.lerp_(mean, share)
        norm.running_var.lerp_(var * rows / max(rows - 1, 1), share)


def _blocks(rows: Tensor) -> Iterator[slice]:
    length = max(1, _BLOCK // rows.shape[1])
    return (slice(start, start + length) for start in range(0, len(rows), length))


def _mean_and_variance(rows: HiddenRows) -> tuple[Tensor, Tensor]:
    """Mean and variance of each column, in two passes: one would lose the variance of a saturated unit."""
    ones = rows.new_ones(len(rows))
    mean = torch.mv(rows.T, ones) / len(rows)
    var = torch.zeros_like(mean)
    for block in _blocks(rows):
        var.addmv_((rows[block] - mean).square_().T, ones[block])
    return mean, var / len(rows)


class _NormedReadout(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        gamma: Tensor,
        beta: Tensor,
        weight: Tensor,
        mean_and_variance: tuple[Tensor, Tensor],
        activation: Activation,
    ) -> Tensor:
        mean, var = mean_and_variance
        scale = gamma * var.rsqrt()
        shift = beta - mean * scale
        ctx.save_for_backward(hidden, scale, shift, weight, mean, var)
        ctx.activation = activation
        logits = hidden.new_empty(len(hidden), len(weight))
        for block in _blocks(hidden):
            torch.mm(_activated(hidden[block], scale, shift, activation), weight.T, out=logits[block])
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None, None]:
        hidden, scale, shift, weight, mean, var = ctx.saved_tensors
        d_hidden, d_weight, ones = torch.empty_like(hidden), torch.zeros_like(weight), hidden.new_ones(len(hidden))
        d_beta, correlation = torch.zeros_like(mean), torch.zeros_like(mean)
        for block in _blocks(hidden):
            activated, dz = _activated(hidden[block], scale, shift, ctx.activation), d_hidden[block]
            d_weight.addmm_(d_logits[block].T, activated)
            ctx.activation.weigh(torch.mm(d_logits[block], weight, out=dz), activated, dz)
            d_beta.addmv_(dz.T, ones[block])
            correlation.addmv_(torch.mul(dz, hidden[block], out=activated).T, ones[block])
        d_gamma = (correlation - mean * d_beta) * var.rsqrt()
        # The mean and the variance depend on every row, so their share of the gradient is subtracted.
        slope = -scale * d_gamma * var.rsqrt() / len(hidden)
        offset = -scale * d_beta / len(hidden) - slope * mean
        for block in _blocks(hidden):
            d_hidden[block].mul_(scale).addcmul_(hidden[block], slope).add_(offset)
        return d_hidden, d_gamma, d_beta, d_weight, None, None


def _activated(hidden: Tensor, scale: Tensor, shift: Tensor, activation: Activation) -> Tensor:
    z = torch.addcmul(shift, hidden, scale)
    return activation.write(z, z)
