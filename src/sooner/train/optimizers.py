"""The optimizers that settings can name."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer, RMSprop

from sooner.settings import OptimizerSettings


class SGDW(SGD):
    """Stochastic gradient descent with momentum and decoupled weight decay (Loshchilov and Hutter, ICLR 2019).

    w <- w - lr * (velocity + decay * w): the decay never enters the velocity, and, as in torch's AdamW, it is scaled by
    the learning rate.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], *, lr: float, momentum: float, decay: float) -> None:
        super().__init__(parameters, lr=lr, momentum=momentum, weight_decay=0.0)
        for group in self.param_groups:
            group["decay"] = decay

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update; `closure` computes the gradients first, where it is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    weight.mul_(1 - group["lr"] * group["decay"])
        super().step()
        return loss


def optimizer_for(parameters: Iterable[nn.Parameter], settings: OptimizerSettings) -> Optimizer:
    """The optimizer of these settings."""
    makers: dict[str, Callable[[], Any]] = {
        "adamw": lambda: AdamW(parameters, lr=settings.lr, weight_decay=settings.weight_decay),
        "sgdw": lambda: SGDW(parameters, lr=settings.lr, momentum=settings.momentum, decay=settings.weight_decay),
        "rmsprop": lambda: RMSprop(parameters, lr=settings.lr, weight_decay=settings.weight_decay),
    }
    optimizer: Optimizer = makers[settings.name]()
    return optimizer


def schedule_for(settings: OptimizerSettings, iterations: int) -> Callable[[int], float]:
    """The share of the learning rate that a step takes.

    >>> [round(schedule_for(OptimizerSettings(schedule="cosine"), 4)(step), 3) for step in range(5)]
    [1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if settings.schedule == "constant":
        return lambda step: 1.0  # noqa: ARG005
    return lambda step: (1 + math.cos(math.pi * min(step / iterations, 1.0))) / 2
