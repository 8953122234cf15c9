"""How a loss is written and how it is called: written for a batch that is known to be fine, called with arrays that are checked.

A door checks arrays and gives the batch and the options that an inner loss reads; `checked_by` puts it in front of one. So
`lsel(scores, labels)` checks and `lsel.inner(batch)` trusts: training checks its data once, and calls the inner losses.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, Protocol, TypeAlias, cast

import numpy as np
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_finite, as_nonnegative, as_tensor
from sooner.losses.means import Batch, batch_of
from sooner.types import ArrayLike, Scalar

P = ParamSpec("P")
Admitted: TypeAlias = tuple[Any, dict[str, Any]]
"""What an inner loss is called with: the batch, and options by name."""


class Loss(Protocol[P]):
    """A loss of arrays, which are checked; `inner` is the same loss of what its door lets in."""

    __name__: str
    inner: Callable[..., Scalar]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Scalar:
        """The loss."""


def checked_by(door: Callable[P, Admitted]) -> Callable[[Callable[..., Scalar]], Loss[P]]:
    """Make the public loss of an inner one: with the arguments of the door, and the name and the docstring of the inner loss."""

    def publish(inner: Callable[..., Scalar]) -> Loss[P]:
        def loss(*args: P.args, **kwargs: P.kwargs) -> Scalar:
            batch, options = door(*args, **kwargs)
            return inner(batch, **options)

        signature = inspect.signature(door).replace(return_annotation=Scalar)
        shown = {name: getattr(inner, name) for name in ("__module__", "__name__", "__qualname__", "__doc__")}
        for name, value in {**shown, "__signature__": signature, "inner": inner}.items():
            setattr(loss, name, value)
        return cast(Loss[P], loss)

    return publish


def on_scores(
    scores: ArrayLike, labels: ArrayLike, *, class_counts: ArrayLike | None = None, lengths: ArrayLike | None = None
) -> Admitted:
    """The door of losses without options."""
    return batch_of(scores, labels, class_counts, lengths), {}


def on_scores_with_class_costs(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Admitted:
    """The door of losses with costs of shape (classes,); ones where none were given."""
    batch = batch_of(scores, labels, class_counts, lengths)
    return batch, {"costs": _as_costs(costs, batch.scores.shape[2:], batch, "Give one cost for each class.")}


def on_scores_with_pair_costs(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Admitted:
    """The door of losses with a matrix of costs, row the true class, whose diagonal is ignored; ones where none were given."""
    batch = batch_of(scores, labels, class_counts, lengths)
    shape, given = 2 * batch.scores.shape[2:], costs
    if costs is not None:
        given = as_tensor(costs, name="costs").clone()
        if given.shape == shape:
            given.fill_diagonal_(0)
    return batch, {"costs": _as_costs(given, shape, batch, "Give one cost for each pair of classes.")}


def on_scores_with_gamma(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    gamma: float = 1.0,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Admitted:
    """The door of losses with a constraint of weight gamma."""
    batch = batch_of(scores, labels, class_counts, lengths)
    remedy = "A negative weight would reward a broken constraint."
    return batch, {"gamma": as_finite(gamma, name="gamma", low=0.0, remedy=remedy)}


def _as_costs(costs: ArrayLike | None, shape: Sequence[int], batch: Batch, remedy: str) -> Tensor:
    if costs is None:
        return batch.scores.new_ones(tuple(shape))
    array = as_nonnegative(costs, shape, name="costs", remedy=remedy)
    if not np.isfinite(array).all():
        raise InvalidArgument("costs", "finite", "an entry of inf", remedy)
    return batch.scores.new_tensor(array)
