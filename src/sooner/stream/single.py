"""One live series: a fleet of one."""

from collections.abc import Sequence
from typing import Any

from sooner.errors import InvalidArgument
from sooner.models.base import Model
from sooner.rules.base import Rule
from sooner.stream.fleet import Fleet, Key, closing
from sooner.stream.fold import AtEnd, Decision, Prepare
from sooner.stream.snapshot import Owner
from sooner.types import ArrayLike, FloatArray

_ONLY = 0


class _SingleFleet(Fleet):
    """Its errors name no key."""

    _owner: Owner = "stream"

    def _name(self, key: Key) -> str:
        del key
        return "observation"


class Stream:
    """One live series; the arguments are those of `Fleet`.

    >>> import torch
    >>> from sooner.models import FrameClassifier
    >>> from sooner.models.image.encoders import Identity
    >>> from sooner.rules import MSPRT
    >>> model = FrameClassifier(Identity((2,)), 2).eval()
    >>> _ = model.head.weight.data.copy_(torch.eye(2))
    >>> live = Stream(model, MSPRT(3.0), classes=["calm", "storm"])
    >>> live.update([0.0, 2.0])
    >>> live.update([0.0, 2.0])
    Decision(label='storm', time=2, crossed=True)
    """

    def __init__(
        self,
        model: Model,
        rule: Rule,
        *,
        classes: Sequence[Any] | None = None,
        prepare: Prepare | None = None,
        offset: ArrayLike | None = None,
        deadline: int | None = None,
        at_end: AtEnd = "force",
        limit: float | None = None,
    ) -> None:
        self._fleet = _SingleFleet(
            model, rule, classes=classes, prepare=prepare, offset=offset, deadline=deadline, at_end=at_end, limit=limit
        )

    def update(self, observation: ArrayLike, time: object = None) -> Decision | None:
        """Process the next observation; returns the decision if the rule fires or the deadline is reached, else None.

        Args:
            observation: a number, or an array with a value for each channel.
            time: for a model that reads gaps, as in `Fleet.update`.
        """
        if self.decision is not None:
            got, remedy = f"one after it was {closing(self.decision)}", "Make a new stream for the next series."
            raise InvalidArgument("observation", "of a series that is still open", got, remedy)
        times = None if time is None else {_ONLY: time}
        return self._fleet.update({_ONLY: observation}, times).get(_ONLY)

    def finish(self) -> Decision:
        """End the series; returns its decision, which is forced if the rule has not fired."""
        if not len(self._fleet) and self.decision is None:
            remedy = "A series begins with its first observation."
            raise InvalidArgument("stream", "one with observations to be finished", "none", remedy)
        return self._fleet.finish(_ONLY)

    @property
    def decision(self) -> Decision | None:
        """The decision, once it is made."""
        return self._fleet._decided.get(_ONLY)

    @property
    def scores(self) -> FloatArray | None:
        """(classes,): the newest scores, as the rule reads them; None before the first observation and after the decision."""
        return self._fleet.scores(_ONLY) if len(self._fleet) else None

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The label set: the labels left, in the order of the classes.

        None before the first observation and after the decision.
        """
        return self._fleet.labels(_ONLY) if len(self._fleet) else None

    @property
    def rule(self) -> Rule:
        """The rule; a new one takes effect with the next observation."""
        return self._fleet.rule

    @rule.setter
    def rule(self, rule: Rule) -> None:
        self._fleet.rule = rule

    @property
    def bytes_per_stream(self) -> int:
        """As `Fleet.bytes_per_stream`."""
        return self._fleet.bytes_per_stream

    def snapshot(self) -> bytes:
        """As `Fleet.snapshot`."""
        return self._fleet.snapshot()

    def restore(self, snapshot: bytes) -> None:
        """As `Fleet.restore`, in a new stream."""
        self._fleet.restore(snapshot)
