"""Public losses check arrays; their `inner` losses trust a batch.

A door checks arrays and returns the batch and the options that an inner loss reads; `checked_by` puts it in front of one.
"""

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeAlias, cast

import numpy as np

from sooner.errors import InvalidArgument
from sooner.inputs import as_finite, as_nonnegative, as_tensor
from sooner.losses.means import Batch, batch_of
from sooner.types import ArrayLike, Scalar

P = ParamSpec("P")
Admitted: TypeAlias = tuple[Any, dict[str, Any]]
"""The arguments of an inner loss: the batch, and options by name."""


class Loss(Protocol[P]):
    """A loss of arrays, which are checked; `inner` is the same loss of a trusted batch."""

    __name__: str
    inner: Callable[..., Scalar]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Scalar:
        """The loss."""


def checked_by(door: Callable[P, Admitted]) -> Callable[[Callable[..., Scalar]], Loss[P]]:
    """A decorator: the public loss has the arguments of the door, and the name and the docstring of the inner loss."""

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


def on_scores_with_gamma(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    gamma: float = 1.0,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Admitted:
    """The door of losses with a constraint of weight gamma."""
    remedy = "A negative weight would reward a broken constraint."
    batch = batch_of(scores, labels, class_counts, lengths)
    return batch, {"gamma": as_finite(gamma, name="gamma", low=0.0, remedy=remedy)}


def on_scores_with_class_costs(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Admitted:
    """The door of losses with costs of shape (classes,); by default all are 1."""
    return _with_costs(batch_of(scores, labels, class_counts, lengths), costs, 1, "Give one cost for each class.")


def on_scores_with_pair_costs(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    costs: ArrayLike | None = None,
    class_counts: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Admitted:
    """The door of losses with a matrix of costs, row the true class, diagonal ignored; by default all are 1."""
    remedy = "Give one cost for each pair of classes."
    return _with_costs(batch_of(scores, labels, class_counts, lengths), costs, 2, remedy)


def _with_costs(batch: Batch, costs: ArrayLike | None, axes: int, remedy: str) -> Admitted:
    shape = axes * tuple(batch.scores.shape[2:])
    if costs is None:
        return batch, {"costs": batch.scores.new_ones(shape)}
    given = as_tensor(costs, name="costs")
    if axes == 2 and given.shape == shape:
        given = given.clone().fill_diagonal_(0)
    array = as_nonnegative(given, shape, name="costs", remedy=remedy)
    if not np.isfinite(array).all():
        raise InvalidArgument("costs", "finite", "an entry of inf", remedy)
    return batch, {"costs": batch.scores.new_tensor(array)}
