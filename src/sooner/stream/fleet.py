"""Many live series by key, or one: a shell over the fold that knows which row belongs to whom."""

from collections.abc import Callable, KeysView, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch

from sooner.errors import InvalidArgument
from sooner.inputs import as_real
from sooner.models.base import Model
from sooner.rules.base import Rule
from sooner.stream.fold import AtEnd, Decision, Fold, FoldStep, Prepare
from sooner.stream.rows import Rows
from sooner.stream.snapshot import FleetState, Of, pack, unpack
from sooner.stream.times import Tick, Times
from sooner.types import ArrayLike, FloatArray, LiveState

Key: TypeAlias = str | int
K = TypeVar("K", bound=Key)


class Fleet:
    """Many live series by key; each is decided as soon as the rule fires.

    A series is opened by the first observation with its key, and closed by its decision. The cost of an observation depends
    neither on the number of earlier observations nor on the number of closed series. An update is atomic: if one observation
    is refused, none of them is processed.

    `decided` keeps the closed keys with their decisions, about 160 bytes each, so that a late observation does not open a new
    series; `forget` frees a key. Not thread-safe.

    Args:
        model: in evaluation mode.
        rule: may be changed at any time (`fleet.rule = MSPRT(3.0)`); the change takes effect with the next observation.
        classes: the names of the K classes, all different; by default 0..K-1.
        prepare: function from the observations to the input of the model, (streams, *features): standardisation, mask channels.
        offset: (classes,), added to the scores before the rule reads them: the log of the priors.
        deadline: maximum number of observations per decision.
        at_end: if the rule has not fired by the end or the deadline, "force" names the leading class, "abstain" gives None as the
            label, and "set" the tuple of the labels left, which needs a `limit`.
        limit: what the log-odds against a label in the label set may reach (`sooner.evaluate.coverage_limit`), which
            `clf.stream(coverage=0.9)` sets; by default no label sets are kept.

    >>> from sooner.models import FrameClassifier
    >>> from sooner.models.image.encoders import Identity
    >>> from sooner.rules import MSPRT
    >>> model = FrameClassifier(Identity((2,)), 2).eval()
    >>> _ = model.head.weight.data.copy_(torch.eye(2))  # each observation is the evidence for both classes
    >>> fleet = Fleet(model, MSPRT(3.0), classes=["calm", "storm"])
    >>> fleet.update({"north": [0.0, 2.0], "south": [0.5, 0.0]})
    {}
    >>> fleet.update({"north": [0.0, 2.0]})
    {'north': Decision(label='storm', time=2, crossed=True)}
    >>> fleet.finish("south")
    Decision(label='calm', time=1, crossed=False)
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
        # `Fold` checks and converts each of them.
        self._fold = Fold(model, rule, classes, prepare, offset, deadline, at_end, limit)  # type: ignore[arg-type]
        self._rows = Rows(tuple(part[:0] for part in self._fold.fresh(1)))
        self._row_of: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._decided: dict[Key, Decision] = {}
        self._times = Times()

    def update(self, observations: Mapping[K, ArrayLike], times: Mapping[K, object] | None = None) -> dict[K, Decision]:
        """Take the next observation of some series in, and get the decisions that they brought about.

        Args:
            observations: one for each key, a string or a whole number; a number counts as an observation of one channel.
            times: for a model that reads gaps, one for each key, a number or a timestamp: the time since the observation before
                (0 at the first) then becomes the last channel of each, as `gaps="channel"` does in a table.
        """
        if not isinstance(observations, Mapping):
            raise InvalidArgument(
                "observations", "a dict", f"a {type(observations).__name__}", '{"sensor-7": x} is one.'
            )
        return self._update(observations, times, _in_fleet)

    def finish(self, key: Key) -> Decision:
        """The series has ended: its decision, by force where the rule has not fired. A decided series keeps its decision."""
        if key in self._row_of:
            return self._finish([key])[key]
        if key in self._decided:
            return self._decided[key]
        remedy = "A series begins with its first observation, and without one there is nothing to decide."
        raise InvalidArgument("key", "that of a series with observations", repr(key), remedy)

    def finish_all(self) -> dict[Key, Decision]:
        """All open series have ended: their decisions, in the order in which they opened."""
        return self._finish(list(self._row_of))

    def forget(self, key: Key) -> None:
        """Drop a series, open or closed, undecided if it is open. Its key may then be used for a new one."""
        if key in self._row_of:
            self._close([key])
        elif key in self._decided:
            del self._decided[key]
        else:
            raise InvalidArgument("key", "that of a series, open or closed", repr(key), "There is nothing to forget.")

    def scores(self, key: Key) -> FloatArray:
        """(classes,): the newest scores of an open series, as the rule saw them."""
        scores: FloatArray = self._row(key)[-2][0].double().cpu().numpy()
        return scores

    def labels(self, key: Key) -> tuple[Any, ...]:
        """The label set of an open series: the labels left, in the order of the classes."""
        return self._fold.label_sets(self._row(key))[0]

    @property
    def rule(self) -> Rule:
        """The rule that decides; another one counts from the next observation on."""
        return self._fold.rule

    @rule.setter
    def rule(self, rule: Rule) -> None:
        fold = self._fold.with_rule(rule, running=len(self))
        *state, memory, scores, ages = self._rows.all()
        if rule.init(1).shape[1] == 0 or not len(self):
            memory = fold.memory(len(self), scores.device)
        self._fold = fold
        self._rows.replace((*state, memory, scores, ages))

    @property
    def decided(self) -> Mapping[Key, Decision]:
        """The closed series with their decisions, in the order in which they were made."""
        return MappingProxyType(self._decided)

    @property
    def bytes_per_stream(self) -> int:
        """The tensors' bytes for each open series: the model's state, the rule's, the scores, the time, and for label sets the
        log-odds against each class."""
        return self._rows.bytes_per_row

    def keys(self) -> KeysView[Key]:
        """The keys of the open series, in the order in which they opened."""
        return self._row_of.keys()

    def __contains__(self, key: object) -> bool:
        return key in self._row_of

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"<Fleet of {len(self)} open and {len(self._decided)} decided series, {self.rule!r}>"

    def snapshot(self) -> bytes:
        """Everything that is remembered, for `restore` in another process: safetensors, no pickle."""
        return self._snapshot("fleet")

    def restore(self, snapshot: bytes) -> None:
        """Go on from a snapshot, in a new fleet that was made with the same arguments; `prepare` cannot be compared.

        The model must have the same weights (of a `PrefixScorer` the calibrations are compared), and the rule must be the
        one of the snapshot; it may be changed afterwards.
        """
        self._restore(snapshot, "fleet")

    @torch.inference_mode()
    def _update(
        self,
        observations: Mapping[Any, ArrayLike],
        times: Mapping[Any, object] | None,
        name_of: Callable[[Key], str],
    ) -> dict[Any, Decision]:
        self._fold.refuse_training()
        known, fresh = self._sorted_out(observations)
        whole = len(known) == len(self._keys)
        # Where every open series is named, they are taken in the order of their rows, and no row needs to be copied.
        known = list(self._keys) if whole else known
        keys = known + fresh
        if not keys:
            return {}
        rows = None if whole else self._rows_of(known)
        values, ticks = self._timed(keys, [observations[key] for key in keys], times, name_of)
        moment = self._observe(rows, keys, values, name_of)
        decisions = {keys[row]: decision for row, decision in self._fold.decided(moment).items()}
        self._keep(rows, moment, fresh)  # nothing can be refused from here on
        self._times.keep(keys, ticks)
        if decisions:
            self._close(list(decisions))
            self._decided.update(decisions)
        return decisions

    def _sorted_out(self, observations: Mapping[Any, ArrayLike]) -> tuple[list[Key], list[Key]]:
        """The keys of open series and those of new ones."""
        fresh = [key for key in observations if key not in self._row_of]
        if not fresh:
            return list(observations), fresh
        for key in fresh:
            if key in self._decided:
                got = f"one of {key!r}, which was {told(self._decided[key])}"
                remedy = f"Call forget({key!r}) to start a new series under that key."
                raise InvalidArgument("observations", "of series that are still open", got, remedy)
            if not isinstance(key, str | int) or isinstance(key, bool):
                got, remedy = f"{key!r}, a {type(key).__name__}", "Convert it first."
                raise InvalidArgument("key", "a string or a whole number", got, remedy)
        return [key for key in observations if key in self._row_of], fresh

    def _timed(
        self,
        keys: list[Key],
        values: list[ArrayLike],
        times: Mapping[Any, object] | None,
        name_of: Callable[[Key], str],
    ) -> tuple[list[ArrayLike], dict[Key, Tick]]:
        """The observations, with their gaps where times came with them, and these times."""
        if times is None:
            return values, {}
        ticks = self._times.ticks(times, keys, self._row_of)
        gaps = [self._times.gap(key, ticks[key]) for key in keys]
        return [
            np.append(as_real(value, name=name_of(key)), gap)
            for key, value, gap in zip(keys, values, gaps, strict=True)
        ], ticks

    def _observe(
        self, rows: torch.Tensor | None, keys: list[Key], values: list[ArrayLike], name_of: Callable[[Key], str]
    ) -> FoldStep:
        """The moment, of which nothing is kept yet."""
        before = self._rows.all() if rows is None else self._rows.take(rows)
        count = len(before[-1])
        if count < len(keys):
            fresh = self._fold.fresh(len(keys) - count)
            before = tuple(torch.cat(pair) for pair in zip(before, fresh, strict=True)) if count else fresh
        try:
            moment = self._fold.observe(before, self._fold.read(values, before[0].device))
        except (ValueError, RuntimeError):
            for key, value in zip(keys, values, strict=True):
                self._fold.blame(value, name=name_of(key))
            raise
        stray = self._fold.stray_row(moment)
        if stray is not None:
            got = f"{moment.scores[stray].tolist()} from {name_of(keys[stray])} at time {int(moment.after[-1][stray])}"
            remedy = "Check for an overflow in the model or in its input."
            raise InvalidArgument("scores", "finite", got, remedy)
        return moment

    def _keep(self, rows: torch.Tensor | None, moment: FoldStep, fresh: list[Key]) -> None:
        """What is remembered from now on, with new series behind the others."""
        if rows is None:
            self._rows.replace(moment.after)
        else:
            if len(rows):
                self._rows.put(rows, tuple(part[: len(rows)] for part in moment.after))
            if fresh:
                self._rows.append(tuple(part[len(rows) :] for part in moment.after))
        self._row_of.update((key, row) for row, key in enumerate(fresh, start=len(self._keys)))
        self._keys += fresh

    def _row(self, key: Key) -> LiveState:
        """What is remembered of an open series."""
        if key not in self._row_of:
            raise InvalidArgument("key", "that of an open series", repr(key), "`key in fleet` tells.")
        return tuple(part[[self._row_of[key]]] for part in self._rows.all())

    def _rows_of(self, keys: list[Key]) -> torch.Tensor:
        return torch.tensor([self._row_of[key] for key in keys], dtype=torch.int64, device=self._rows.device)

    @torch.inference_mode()
    def _finish(self, keys: list[Key]) -> dict[Key, Decision]:
        rows = self._rows_of(keys)
        decisions = dict(zip(keys, self._fold.forced(tuple(part[rows] for part in self._rows.all()[-4:])), strict=True))
        self._close(keys)
        self._decided.update(decisions)
        return decisions

    @torch.inference_mode()
    def _close(self, keys: list[Key]) -> None:
        """Let the rows of these series go; the last ones take their places."""
        if not keys:
            return
        for key in keys:
            self._times.forget(key)
        for index, origin in self._rows.drop([self._row_of.pop(key) for key in keys]):
            self._keys[index] = self._keys[origin]
            self._row_of[self._keys[index]] = index
        del self._keys[self._rows.count :]

    def _snapshot(self, of: Of) -> bytes:
        return pack(FleetState(self._row_of, self._rows.all(), self._decided, self._times.newest), self._fold, of)

    def _restore(self, snapshot: bytes, of: Of) -> None:
        if self._keys or self._decided:
            got, remedy = f"one of {len(self)} open and {len(self._decided)} decided series", "Make another one for it."
            raise InvalidArgument(of, "new to take a snapshot in", got, remedy)
        self._row_of, rows, self._decided, newest = unpack(snapshot, self._fold, of)
        self._times = Times(newest)
        self._keys = sorted(self._row_of, key=self._row_of.__getitem__)
        self._rows.replace(rows)


def _in_fleet(key: Key) -> str:
    return f"observations[{key!r}]"


def told(decision: Decision) -> str:
    """What happened to a closed series."""
    if decision.label is None:
        return f"closed at time {decision.time} without a class"
    return f"decided at time {decision.time} as {decision.label!r}"
