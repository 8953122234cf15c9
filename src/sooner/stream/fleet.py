"""Many live series by key: the fold, and the row of each key."""

from collections.abc import Callable, KeysView, Mapping, Sequence
from functools import partial
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
from sooner.stream.snapshot import FleetState, Owner, pack, unpack
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

    _owner: Owner = "fleet"

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
        # `Fold` checks and converts the arguments.
        self._fold = Fold(model, rule, classes, prepare, offset, deadline, at_end, limit)  # type: ignore[arg-type]
        self._rows = Rows(tuple(tensor[:0] for tensor in self._fold.fresh(1)))
        self._row_of: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._decided: dict[Key, Decision] = {}
        self._times = Times()

    def update(self, observations: Mapping[K, ArrayLike], times: Mapping[K, object] | None = None) -> dict[K, Decision]:
        """Process the next observation of some series; returns the decisions that it leads to.

        Args:
            observations: one for each key, a string or an integer; a number is an observation of one channel.
            times: for a model that reads gaps, a number or a timestamp for each key: the time since the previous observation
                (0 at the first) then becomes the last channel, as `gaps="channel"` does in a table.
        """
        if not isinstance(observations, Mapping):
            raise InvalidArgument(
                "observations", "a dict", f"a {type(observations).__name__}", '{"sensor-7": x} is one.'
            )
        return self._update(observations, times)

    def finish(self, key: Key) -> Decision:
        """End a series; returns its decision, which is forced if the rule has not fired."""
        if key in self._row_of:
            return self._finish([key])[key]
        if key in self._decided:
            return self._decided[key]
        remedy = "A series begins with its first observation."
        raise InvalidArgument("key", "that of a series with observations", repr(key), remedy)

    def finish_all(self) -> dict[Key, Decision]:
        """End all open series; returns their decisions, in the order in which the series were opened."""
        return self._finish(list(self._row_of))

    def forget(self, key: Key) -> None:
        """Free the key of a series, open or closed, without a decision; it may then be used for a new series."""
        if key in self._row_of:
            self._close([key])
        elif key in self._decided:
            del self._decided[key]
        else:
            raise InvalidArgument("key", "that of a series, open or closed", repr(key), "There is nothing to forget.")

    def scores(self, key: Key) -> FloatArray:
        """(classes,): the newest scores of an open series, as the rule reads them."""
        scores: FloatArray = self._row(key)[-2][0].double().cpu().numpy()
        return scores

    def labels(self, key: Key) -> tuple[Any, ...]:
        """The label set of an open series: the labels left, in the order of the classes."""
        return self._fold.label_sets(self._row(key))[0]

    @property
    def rule(self) -> Rule:
        """The rule; a new one takes effect with the next observation."""
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
        """Bytes of the tensors of an open series."""
        return self._rows.bytes_per_row

    def keys(self) -> KeysView[Key]:
        """The keys of the open series, in the order in which they were opened."""
        return self._row_of.keys()

    def __contains__(self, key: object) -> bool:
        return key in self._row_of

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"<Fleet of {len(self)} open and {len(self._decided)} decided series, {self.rule!r}>"

    def snapshot(self) -> bytes:
        """The state of all series, for `restore` in another process: safetensors, no pickle."""
        return pack(self._state(), self._fold, self._owner)

    def later_snapshot(self) -> Callable[[], bytes]:
        """A function that gives the snapshot of this moment, which may be called later and in another thread."""
        state = self._state()
        rows = tuple(tensor.clone() for tensor in state.rows)
        copy = FleetState(dict(state.row_of), rows, dict(state.decided), dict(state.times))
        return partial(pack, copy, self._fold, self._owner)

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot, in a new fleet with the same arguments; `prepare` is not compared.

        The model must have the same weights (a `PrefixScorer` the same calibrations), and the rule must be that of the snapshot;
        it may be changed afterwards.
        """
        if self._keys or self._decided:
            got = f"one of {len(self)} open and {len(self._decided)} decided series"
            raise InvalidArgument(self._owner, "new, without series", got, "Make another one for the snapshot.")
        self._row_of, rows, self._decided, newest = unpack(snapshot, self._fold, self._owner)
        self._times = Times(newest)
        self._keys = sorted(self._row_of, key=self._row_of.__getitem__)
        self._rows.replace(rows)

    def _state(self) -> FleetState:
        return FleetState(self._row_of, self._rows.all(), self._decided, self._times.newest)

    def _name(self, key: Key) -> str:
        """The name of an observation in errors."""
        return f"observations[{key!r}]"

    @torch.inference_mode()
    def _update(self, observations: Mapping[Any, ArrayLike], times: Mapping[Any, object] | None) -> dict[Any, Decision]:
        self._fold.refuse_training()
        known, fresh = self._known_and_fresh(observations)
        whole = len(known) == len(self._keys)
        # With an observation for every open series, the order of the rows is used, and no row needs to be copied.
        known = list(self._keys) if whole else known
        keys = known + fresh
        if not keys:
            return {}
        rows = None if whole else self._rows_of(known)
        values: list[ArrayLike] = [observations[key] for key in keys]
        ticks: dict[Key, Tick] = {}
        if times is not None:
            ticks = self._times.ticks(times, keys, self._row_of)
            gaps = [self._times.gap(key, ticks[key]) for key in keys]
            values = [
                np.append(as_real(value, name=self._name(key)), gap)
                for key, value, gap in zip(keys, values, gaps, strict=True)
            ]
        step = self._observe(rows, keys, values)
        decisions = {keys[row]: decision for row, decision in self._fold.decided(step).items()}
        self._keep(rows, step, fresh)  # nothing can be refused from here on
        self._times.keep(keys, ticks)
        if decisions:
            self._close(list(decisions))
            self._decided.update(decisions)
        return decisions

    def check_rule(self, rule: Rule) -> None:
        """Refuse a rule that cannot take the place of the current one."""
        self._fold.with_rule(rule, running=len(self))

    @property
    def classes(self) -> tuple[Any, ...]:
        """The names of the classes."""
        return self._fold.classes

    def _known_and_fresh(self, observations: Mapping[Any, ArrayLike]) -> tuple[list[Key], list[Key]]:
        """The keys of open series and those of new ones."""
        fresh = [key for key in observations if key not in self._row_of]
        if not fresh:
            return list(observations), fresh
        for key in fresh:
            if key in self._decided:
                got = f"one of {key!r}, which was {closing(self._decided[key])}"
                remedy = f"Call forget({key!r}) to start a new series under that key."
                raise InvalidArgument("observations", "of series that are still open", got, remedy)
            if not isinstance(key, str | int) or isinstance(key, bool):
                got, remedy = f"{key!r}, a {type(key).__name__}", "Convert it first."
                raise InvalidArgument("key", "a string or a whole number", got, remedy)
        return [key for key in observations if key in self._row_of], fresh

    def _observe(self, rows: torch.Tensor | None, keys: list[Key], values: list[ArrayLike]) -> FoldStep:
        """The step of the fold; the rows are not changed yet."""
        before = self._before(rows, len(keys))
        try:
            step = self._fold.observe(before, self._fold.read(values, before[0].device))
        except (ValueError, RuntimeError):
            for key, value in zip(keys, values, strict=True):
                self._fold.blame(value, name=self._name(key))
            raise
        stray = self._fold.stray_row(step)
        if stray is not None:
            raise self._stray(keys[stray], step, stray)
        return step

    def _before(self, rows: torch.Tensor | None, count: int) -> LiveState:
        """The state of the series in these rows (None for all), and of as many new ones as are missing."""
        before = self._rows.all() if rows is None else self._rows.take(rows)
        known = before[-1].shape[0]  # `len` of a tensor takes ten times as long
        if known == count:
            return before
        fresh = self._fold.fresh(count - known)
        return tuple(torch.cat(pair) for pair in zip(before, fresh, strict=True)) if known else fresh

    def _stray(self, key: Key, step: FoldStep, row: int) -> InvalidArgument:
        """The error of scores that are not finite."""
        got = f"{step.scores[row].tolist()} from {self._name(key)} at time {int(step.after[-1][row])}"
        return InvalidArgument("scores", "finite", got, "Check for an overflow in the model or in its input.")

    def _keep(self, rows: torch.Tensor | None, step: FoldStep, fresh: list[Key]) -> None:
        """Store the new state, with new series behind the others."""
        if rows is None:
            self._rows.replace(step.after)
        else:
            if len(rows):
                self._rows.put(rows, tuple(tensor[: len(rows)] for tensor in step.after))
            if fresh:
                self._rows.append(tuple(tensor[len(rows) :] for tensor in step.after))
        self._row_of.update((key, row) for row, key in enumerate(fresh, start=len(self._keys)))
        self._keys += fresh

    def _row(self, key: Key) -> LiveState:
        """The state of an open series."""
        if key not in self._row_of:
            raise InvalidArgument("key", "that of an open series", repr(key), "Check with `key in fleet`.")
        return tuple(tensor[[self._row_of[key]]] for tensor in self._rows.all())

    def _rows_of(self, keys: list[Key]) -> torch.Tensor:
        return torch.tensor([self._row_of[key] for key in keys], dtype=torch.int64, device=self._rows.device)

    @torch.inference_mode()
    def _finish(self, keys: list[Key]) -> dict[Key, Decision]:
        rows = self._rows_of(keys)
        decisions = dict(
            zip(keys, self._fold.forced(tuple(tensor[rows] for tensor in self._rows.all()[-4:])), strict=True)
        )
        self._close(keys)
        self._decided.update(decisions)
        return decisions

    @torch.inference_mode()
    def _close(self, keys: list[Key]) -> list[tuple[int, int]]:
        """Free the rows of these series; the last rows move into the gaps, as pairs (new row, old row) say."""
        if not keys:
            return []
        for key in keys:
            self._times.forget(key)
        moves = self._rows.drop([self._row_of.pop(key) for key in keys])
        for index, origin in moves:
            self._keys[index] = self._keys[origin]
            self._row_of[self._keys[index]] = index
        del self._keys[self._rows.count :]
        return moves


def closing(decision: Decision) -> str:
    """How a series was closed, as text."""
    if decision.label is None:
        return f"closed at time {decision.time} without a class"
    return f"decided at time {decision.time} as {decision.label!r}"
