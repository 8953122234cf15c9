"""The optimizers of the settings; learning rate and weight decay mean what they mean in TensorFlow, as in published settings.

======= ====================================================================================
symbol  meaning
======= ====================================================================================
w, g    a weight, and the gradient of the loss
lr, d   the learning rate and the weight decay of the settings
f       the factor of the schedule at this step, 1 where it is constant
======= ====================================================================================

AdamW and SGDW: w <- w - f d w, then the step of the gradient; the learning rate does not enter the decay. RMSprop: g + d w
takes the place of g.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer, RMSprop

from sooner.train.settings import OptimizerSettings


class SGDW(SGD):
    """Stochastic gradient descent with Nesterov momentum and decoupled weight decay (Loshchilov and Hutter, ICLR 2019).

    w <- w - lr decay w, v <- momentum v + g, w <- w - lr (g + momentum v): the decay never enters the velocity. TensorFlow stores
    lr v instead of v, which is equal as long as the learning rate is constant.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: float, momentum: float, decay: float) -> None:
        super().__init__(parameters, lr=lr, momentum=momentum, weight_decay=0.0, nesterov=momentum > 0)
        for group in self.param_groups:
            group["decay"] = decay

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update, after the gradients of `closure` if it is given."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.mul_(1 - group["lr"] * group["decay"])
        super().step()
        return loss


def optimizer_for(parameters: Iterable[nn.Parameter], settings: OptimizerSettings) -> Optimizer:
    """The optimizer of the settings."""
    weights = list(parameters)
    lr, decay = settings.lr, settings.weight_decay
    share = decay / lr  # AdamW and SGDW multiply it by the scheduled learning rate: (d / lr) (f lr) = f d
    makers: dict[str, Callable[[], Any]] = {
        # One pass over the weights instead of one for each operation: three tenths of a step with a large embedding.
        "adamw": lambda: AdamW(weights, lr=lr, weight_decay=share, fused=True),
        "sgdw": lambda: SGDW(weights, lr=lr, momentum=settings.momentum, decay=share),
        # Keras's defaults; torch's are 0.99 and 1e-8.
        "rmsprop": lambda: RMSprop(weights, lr=lr, weight_decay=decay, alpha=0.9, eps=1e-7),
    }
    optimizer: Optimizer = makers[settings.name]()
    return optimizer


def schedule_for(settings: OptimizerSettings, iterations: int) -> Callable[[int], float]:
    """The factor of the learning rate, as a function of the step.

    >>> [round(schedule_for(OptimizerSettings(schedule="cosine"), 4)(step), 3) for step in range(5)]
    [1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if settings.schedule == "constant":
        return lambda step: 1.0  # noqa: ARG005
    return lambda step: (1 + math.cos(math.pi * min(step / iterations, 1.0))) / 2
