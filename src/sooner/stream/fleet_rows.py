"""A fleet by its rows, for callers that have many observations as columns and keep columns of their own."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
import torch

from sooner.errors import InvalidArgument
from sooner.stream.fleet import Fleet, Key
from sooner.stream.fold import Decision, FoldStep
from sooner.stream.times import Tick
from sooner.types import FloatArray, IntArray

_ONE, _NONE = np.zeros(1, dtype=np.int64), np.empty((0, 0))


class Advance(NamedTuple):
    """What `Fleet.advance` did.

    Attributes:
        order: the indices of the observations that were processed; those that opened a series come last.
        rows: the row of each of them now.
        stopped: the indices of those that stop their series, with `decisions` and `scores`, (stopped, classes).
        decisions: one for each.
        scores: the scores that were decided on.
        refused: what is wrong with the others, by index.
    """

    order: IntArray
    rows: IntArray
    stopped: list[int]
    decisions: list[Decision]
    scores: FloatArray
    refused: dict[int, InvalidArgument]


class FleetRows:
    """Access to the rows of a fleet, whose internals it knows.

    The rows move when series are closed: what says so gives pairs (new row, old row) for columns that are kept beside them.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._readable: tuple[int, ...] | None = None  # the shape of an observation, once it is known

    def rows_of(self, keys: Sequence[Key]) -> IntArray:
        """(keys,): the row of each open series, and -1 for others."""
        return np.fromiter(map(self._fleet._row_of.get, keys, repeat(-1)), dtype=np.int64, count=len(keys))

    def keys_of(self, rows: IntArray) -> list[Key]:
        """The keys of the open series in these rows."""
        return [self._fleet._keys[row] for row in rows]

    @torch.inference_mode()
    def advance(
        self, keys: Sequence[Key], rows: IntArray, values: FloatArray, ticks: Mapping[Key, Tick] | None = None
    ) -> "Advance":
        """Process one observation of each of these series; those that are refused cost only themselves.

        As `update`, for callers that have checked the keys (all different, none of them closed), and that then `settle` the
        series that stop.

        Args:
            keys: strings or integers.
            rows: what `rows_of` says of them.
            values: (keys, channels), with the gap as the last channel for a model that reads gaps.
            ticks: for such a model, the times from `tick_and_gap`.
        """
        self._fleet._fold.refuse_training()
        refused: dict[int, InvalidArgument] = {}
        # In the order of the rows, new series behind the others.
        order = np.argsort(np.where(rows < 0, len(self._fleet), rows), kind="stable") if len(rows) > 1 else _ONE
        step, known = None, order[:0]
        while step is None and len(order):
            ordered = rows[order]
            known = ordered[ordered >= 0]
            taken = None if len(known) == len(self._fleet) else self._on_device(known)
            step, bad = self._attempt(taken, keys, order, values)
            refused.update((int(order[index]), error) for index, error in bad.items())
            order = np.delete(order, list(bad)) if bad else order
        if step is None:
            return Advance(order, order, [], [], _NONE, refused)
        new = [keys[index] for index in order[len(known) :]]
        after = np.concatenate([known, np.arange(len(self._fleet), len(self._fleet) + len(new))]) if new else known
        decided = self._fleet._fold.decided(step)
        self._fleet._keep(taken, step, new)
        if ticks is not None:
            taken_keys = [keys[index] for index in order]
            self._fleet._times.keep(taken_keys, {key: ticks[key] for key in taken_keys if key in ticks})
        if not decided:
            return Advance(order, after, [], [], _NONE, refused)
        scores = step.scores[list(decided)].double().cpu().numpy()
        return Advance(order, after, [int(order[row]) for row in decided], list(decided.values()), scores, refused)

    def settle(self, keys: Sequence[Key], decisions: Sequence[Decision]) -> list[tuple[int, int]]:
        """Close open series that were decided; returns which rows have moved, as pairs (new row, old row)."""
        moves = self._fleet._close(list(keys))
        self._fleet._decided.update(zip(keys, decisions, strict=True))
        return moves

    @torch.inference_mode()
    def forced(self, keys: Sequence[Key]) -> tuple[list[Decision], FloatArray]:
        """The decisions of some open series if they ended now, and (keys, classes), their newest scores."""
        rows = self._on_device(self.rows_of(keys))
        state = tuple(tensor[rows] for tensor in self._fleet._rows.all()[-4:])
        return self._fleet._fold.forced(state), state[-2].double().cpu().numpy()

    def adopt(self, key: Key, decision: Decision) -> None:
        """Know of a series that another fleet has closed."""
        self._fleet._decided[key] = decision

    def drop(self, key: Key) -> list[tuple[int, int]]:
        """Drop an open series; returns which rows have moved."""
        return self._fleet._close([key])

    def _on_device(self, rows: IntArray) -> torch.Tensor:
        return torch.from_numpy(rows).to(self._fleet._rows.device)

    def _attempt(
        self, rows: torch.Tensor | None, keys: Sequence[Key], order: IntArray, values: FloatArray
    ) -> tuple[FoldStep | None, dict[int, InvalidArgument]]:
        """The step of the fold for these keys, or what is wrong with single observations, by their place in the order."""
        before = self._fleet._before(rows, len(order))
        x = None
        try:
            x = self._fleet._fold.read(values if len(values) == 1 else values[order], before[0].device)
            step = self._fleet._fold.observe(before, x)
        except (ValueError, RuntimeError):
            bad = self._blamed([keys[index] for index in order], values[order], x)
            if not bad:
                raise
            return None, bad
        if self._fleet._fold.stray_row(step) is None:
            return step, {}
        stray = (~step.scores.isfinite()).any(dim=1).nonzero()[:, 0].tolist()
        return None, {row: self._fleet._stray(keys[order[row]], step, row) for row in stray}

    def _blamed(self, keys: list[Key], values: FloatArray, x: torch.Tensor | None) -> dict[int, InvalidArgument]:
        """The errors of single observations, by row."""
        suspects: Sequence[int] = range(len(keys))
        if x is not None and tuple(x.shape) == (len(keys), *self._fleet._fold.model.features):
            suspects = (~x.flatten(1).isfinite()).any(dim=1).nonzero()[:, 0].tolist()
        bad = {}
        for row in suspects:
            try:
                self._fleet._fold.blame(values[row], name=self._fleet._name(keys[row]))
            except InvalidArgument as error:
                bad[row] = error
        return bad

    def tick_and_gap(self, key: Key, time: object) -> tuple[Tick, float]:
        """The time of the next observation of a series, and the gap to its previous one."""
        tick = self._fleet._times.ticks({key: time}, [key], self._fleet._row_of)[key]
        return tick, self._fleet._times.gap(key, tick)

    def shape_error(self, shape: tuple[int, ...], key: Key) -> InvalidArgument | None:
        """The error of an observation of this shape, if the model cannot read it."""
        if shape == self._readable:
            return None
        try:
            self._fleet._fold.blame(np.zeros(shape), name=self._fleet._name(key))
        except InvalidArgument as error:
            return error
        self._readable = shape
        return None

    def reads(self, values: FloatArray) -> bool:
        """Whether all of these observations, whose shape is right, are finite for the model."""
        return not len(values) or bool(self._fleet._fold.read(values, self._fleet._rows.device).isfinite().all())

    def peek(self, keys: Sequence[Key]) -> tuple[FloatArray, IntArray]:
        """Of some open series: (keys, classes), their newest scores, and (keys,), how many observations were read."""
        rows = self._on_device(self.rows_of(keys))
        scores, ages = (tensor[rows].cpu().numpy() for tensor in self._fleet._rows.all()[-2:])
        return scores.astype(np.float64), ages
