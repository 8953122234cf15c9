"""Class costs for `cost_sensitive_lsel`, scaled so that sum_k M_k C_k = M: the mean cost of a training series is 1."""

import torch

from sooner.errors import InvalidArgument
from sooner.inputs import as_number, as_real_tensor
from sooner.types import ArrayLike, Costs


def uniform(class_counts: ArrayLike) -> Costs:
    """C_k = 1."""
    return torch.ones_like(_positive(class_counts))


def inverse_frequency(class_counts: ArrayLike) -> Costs:
    """C_k = M / (K M_k): every class weighs the same, and cost-sensitive LSEL is LSEL.

    >>> inverse_frequency([30, 10])
    tensor([0.6667, 2.0000], dtype=torch.float64)
    """
    return effective_number(class_counts, beta=1.0)


def effective_number(class_counts: ArrayLike, *, beta: float) -> Costs:
    """C_k ~ (1 - beta) / (1 - beta^M_k) (Cui et al., CVPR 2019); beta = 0 is uniform, beta = 1 is inverse frequency."""
    counts = _positive(class_counts)
    beta = as_number(beta, name="beta", low=0.0, high=1.0, remedy="0 weighs classes alike, 1 by inverse frequency.")
    effective = counts if beta == 1.0 else -torch.expm1(counts * torch.tensor(beta, dtype=torch.float64).log())
    costs = 1 / effective
    return costs * counts.sum() / (counts @ costs)


def _positive(class_counts: ArrayLike) -> Costs:
    counts = as_real_tensor(class_counts, name="class_counts").double()
    if counts.ndim != 1 or len(counts) < 2 or not bool((torch.isfinite(counts) & (counts >= 1)).all()):
        expected, remedy = (
            "one number of at least 1 for each of at least 2 classes",
            "Leave out classes without a series.",
        )
        raise InvalidArgument("class_counts", expected, counts.tolist(), remedy)
    return counts
