"""Workers that train one model together: each has a copy of the model, and reads its share of every batch."""

from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed
from torch import nn

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """One of `size` workers, by its rank; only worker 0 writes files, and a single worker exchanges nothing."""

    rank: int = 0
    size: int = 1

    @classmethod
    def of_process_group(cls) -> "Team":
        """The team of the default process group of `torch.distributed`."""
        return cls(torch.distributed.get_rank(), torch.distributed.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this is worker 0."""
        return self.rank == 0

    def share_buffers(self, model: nn.Module) -> None:
        """Copy the buffers of worker 0, such as the moments of batch normalisation, to all workers."""
        if self.size > 1:
            for buffer in model.buffers():
                torch.distributed.broadcast(buffer, src=0)

    def average_gradients(self, model: nn.Module) -> None:
        """Replace each gradient by its mean over the workers, with one message for all gradients."""
        if self.size == 1:
            return
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        used = torch.tensor([float(weight.grad is not None) for weight in trained], device=trained[0].device)
        torch.distributed.all_reduce(used)
        # A weight without a gradient on every worker stays so: the optimizer then skips it, and its decay.
        weights = [weight for weight, count in zip(trained, used.tolist(), strict=True) if count]
        own = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
        together = torch.cat([gradient.flatten() for gradient in own])
        torch.distributed.all_reduce(together)
        means = (together / self.size).split([weight.numel() for weight in weights])
        for weight, mean in zip(weights, means, strict=True):
            weight.grad = mean.view_as(weight)

    def gather(self, value: T) -> list[T]:
        """The values of all workers, by rank."""
        if self.size == 1:
            return [value]
        values = [value] * self.size
        torch.distributed.all_gather_object(values, value)
        return values

    def agree(self, value: T) -> T:
        """The value of worker 0."""
        if self.size == 1:
            return value
        values = [value]
        torch.distributed.broadcast_object_list(values, src=0)
        return values[0]
