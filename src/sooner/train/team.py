"""The workers that train one model together: each has a copy of it, and reads its own part of every batch."""

from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed
from torch import nn

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """One of `size` workers, by its rank; alone there is nothing to exchange.

    Args:
        rank: of this worker, from 0; only the first one writes files.
        size: the number of workers.

    >>> Team().gather("mine")
    ['mine']
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def of_process_group(cls) -> "Team":
        """The one that `torch.distributed` knows of."""
        return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this is the first worker."""
        return self.rank == 0

    def share_buffers(self, model: nn.Module) -> None:
        """Give all workers the buffers of the first one: running moments of batch normalisation are its own."""
        if self.size > 1:
            for buffer in model.buffers():
                torch.distributed.broadcast(buffer, src=0)

    def average_gradients(self, model: nn.Module) -> None:
        """Put the mean over workers in the place of each gradient; all of them travel as one tensor."""
        if self.size == 1:
            return
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        used = torch.tensor([float(weight.grad is not None) for weight in trained], device=trained[0].device)
        torch.distributed.all_reduce(used)
        # What no worker's loss depends on stays without a gradient: optimizers leave it alone then, its decay too.
        weights = [weight for weight, count in zip(trained, used.tolist(), strict=True) if count]
        own = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
        together = torch.cat([gradient.flatten() for gradient in own])
        torch.distributed.all_reduce(together)
        parts = (together / self.size).split([weight.numel() for weight in weights])
        for weight, part in zip(weights, parts, strict=True):
            weight.grad = part.view_as(weight)

    def gather(self, value: T) -> list[T]:
        """What each worker brings, by rank."""
        if self.size == 1:
            return [value]
        values = [value] * self.size
        torch.distributed.all_gather_object(values, value)
        return values

    def agree(self, value: T) -> T:
        """What the first worker says."""
        if self.size == 1:
            return value
        values = [value]
        torch.distributed.broadcast_object_list(values, src=0)
        return values[0]
