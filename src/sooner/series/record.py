"""The record of observations: checked once, when it is created, and trusted everywhere else."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_between, as_codes, as_indices, as_seed, as_weights, as_whole
from sooner.series.arrays import (
    Missing,
    Names,
    as_channel_names,
    as_ids,
    as_series_names,
    read_aeon,
    read_arrays,
    read_labels,
)
from sooner.types import ArrayLike, BoolArray, IntArray, Labels, Observations

_BY_SERIES = ("observations", "lengths", "labels", "ids", "groups", "weights")
_SHOWN = 10
_POOL = 32  # batches; series are sorted by length within a pool, so that batches differ between seeds


@dataclass(frozen=True, eq=False)
class Series:
    """A set of series of different lengths, with labels, IDs and channel names if they are known.

    `Series.of`, `from_aeon`, `from_arrays` and the readers of `sooner.data` check the data; the constructor does not.

    Args:
        observations: (series, time, *features), finite everywhere and zero beyond each length.
        lengths: (series,), the number of observations of each series.
        labels: (series,), class indices; None if they are not known. `names(labels)` returns the labels themselves.
        classes: (classes,), the names of the classes, of any type.
        ids: (series,), IDs of the series, all different.
        channels: the names of the channels, without the mask channels.
        groups: (series,), the group of each series, of any type; `split_by_group` never splits a group.
        weights: (series,), the weight of each series in training.
        mask_channels: number of mask channels, which come last and are 1 for an observed value and 0 for a missing one.
    """

    observations: Tensor
    lengths: Tensor
    labels: Tensor = None  # type: ignore[assignment]  # None where they are not known: see `require_labels`
    classes: Names = None  # type: ignore[assignment]
    ids: Names | None = None
    channels: tuple[str, ...] | None = None
    groups: Names | None = None
    weights: Tensor | None = None
    mask_channels: int = 0

    @classmethod
    def of(
        cls,
        X: Any,  # noqa: N803  (what every time-series library calls it)
        y: Any = None,
        *,
        series: str | None = None,
        time: str | None = None,
        label: str | None = None,
        channels: Sequence[str] | None = None,
        group: str | None = None,
        ignore: Sequence[str] = (),
        groups: Any = None,
        weights: Any = None,
        classes: Any = None,
        missing: Missing = "refuse",
    ) -> "Series":
        """Read a long DataFrame (pandas, Polars, pyarrow) with one row per observation, or arrays in aeon's layout.

        Args:
            X: a long DataFrame with rows in any order; an array (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints);
                a list of (n_channels, n_timepoints_i); or a Series, which is returned unchanged.
            y: (n_cases,), labels of any type, for arrays.
            series: column with the series ID. This and the next five arguments are for a long DataFrame.
            time: column with numbers, timestamps or dates, by which the observations of a series are sorted.
            label: column with the class, the same in all rows of a series.
            channels: columns of numbers, in this order; by default all others. For arrays, the names of the channels.
            group: column with a group ID (for example the patient).
            ignore: columns that are not read.
            groups: (n_cases,), of any type, for arrays.
            weights: (n_cases,), the weight of each series in training.
            classes: all class names, if some of them may be absent from X; by default the labels in X, sorted.
            missing: "mask" replaces NaN by 0 and adds a mask channel for each channel: 1 for observed, 0 for missing.

        >>> import pyarrow as pa
        >>> table = pa.table({"pump": ["a", "b", "a"], "minute": [1, 1, 2], "hum": [1, 9, 2], "state": ["fine", "leak", "fine"]})
        >>> Series.of(table, series="pump", time="minute", label="state").lengths
        tensor([2, 1])
        >>> Series.of([[[1.0, 2.0, 3.0]], [[4.0]]], ["up", "down"]).lengths
        tensor([3, 1])
        """
        from sooner.series.columns import Columns
        from sooner.series.frame import is_frame, read_frame, wide_array

        if isinstance(X, Series):
            return X._completed(y, groups, weights, classes)
        columns = Columns(series, time, label, channels if is_frame(X) else None, group, ignore)
        if is_frame(X) and columns.given():
            for name, value, column in (("y", y, "label"), ("groups", groups, "group")):
                if value is not None:
                    raise InvalidArgument(name, "None for a long DataFrame", "a value", f"Name its column: {column}=.")
            return read_frame(X, columns, classes=classes, missing=missing)._completed(None, None, weights, None)
        if columns.given():
            name, value = next(iter(columns.given().items()))
            remedy = "It names a column of a long DataFrame; arrays come with `y` and `groups`."
            raise InvalidArgument(name, "None for arrays", repr(value), remedy)
        cases = cls(*read_aeon(wide_array(X) if is_frame(X) else X, missing=missing))
        return cases._with(y, None, channels, groups, weights, classes, missing)

    def _completed(self, labels: Any, groups: Any, weights: Any, classes: Any) -> "Series":
        """The same series with the labels, groups and weights that are not None."""
        count, series = len(self), self if labels is None else self.labelled(labels, classes=classes)
        if groups is not None:
            series = replace(series, groups=as_series_names(groups, count, name="groups"))
        if weights is not None:
            series = replace(series, weights=torch.as_tensor(as_weights(weights, count, name="weights")))
        return series

    @classmethod
    def from_aeon(
        cls,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        ids: Any = None,
        channels: Any = None,
        groups: Any = None,
        weights: Any = None,
        classes: Any = None,
        missing: Missing = "refuse",
    ) -> "Series":
        """Read arrays in aeon's layout, where time is the last axis; the arguments are those of `of`.

        >>> series = Series.from_aeon([[[1.0, 2.0, 3.0]], [[4.0]]], ["up", "down"])
        >>> series.observations.shape, series.lengths.tolist(), series.names(series.labels).tolist()
        (torch.Size([2, 3, 1]), [3, 1], ['up', 'down'])
        """
        series = cls(*read_aeon(X, missing=missing))
        return series._with(y, ids, channels, groups, weights, classes, missing)

    @classmethod
    def from_arrays(
        cls,
        observations: ArrayLike,
        labels: Any = None,
        *,
        lengths: ArrayLike | None = None,
        ids: Any = None,
        channels: Any = None,
        groups: Any = None,
        weights: Any = None,
        classes: Any = None,
        missing: Missing = "refuse",
    ) -> "Series":
        """Read an array where time is the second axis: (series, time, *features), or (series, time) for one channel.

        `lengths` are the lengths of padded series, by default all of time; the other arguments are those of `of`.
        """
        series = cls(*read_arrays(observations, lengths, missing=missing))
        return series._with(labels, ids, channels, groups, weights, classes, missing)

    def _with(
        self, labels: Any, ids: Any, channels: Any, groups: Any, weights: Any, classes: Any, missing: Missing
    ) -> "Series":
        """The same series with the names that are not None, checked."""
        masks = self.features[-1] // 2 if missing == "mask" else 0
        measured = self.features[0] - masks if len(self.features) == 1 else 0
        return replace(
            self._completed(labels, groups, weights, classes),
            ids=None if ids is None else as_ids(ids, len(self)),
            channels=None if channels is None else as_channel_names(channels, measured),
            mask_channels=masks,
        )

    def __repr__(self) -> str:
        low, high = int(self.lengths.min()), int(self.lengths.max())
        lengths = f"{low}" if low == high else f"{low} to {high}"
        channels = "" if self.channels is None else f", channels {', '.join(self.channels[:_SHOWN])}"
        classes = "" if self.classes is None else f", {len(self.classes)} classes"
        return f"<Series: {len(self):,} series of {lengths} observations{channels}{classes}>"

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def features(self) -> tuple[int, ...]:
        """The shape of one observation."""
        return tuple(self.observations.shape[2:])

    @property
    def shape(self) -> tuple[int, ...]:
        """(time, *features) of the tensor."""
        return tuple(self.observations.shape[1:])

    @property
    def of_equal_length(self) -> bool:
        """Whether every series fills the tensor."""
        return bool((self.lengths == self.observations.shape[1]).all())

    def with_channels(self, names: Sequence[str]) -> "Series":
        """The same series with these channels, in this order."""
        if self.channels is None or tuple(names) == self.channels:
            return self
        lost = [name for name in names if name not in self.channels]
        if lost:
            got = f"a Series with {', '.join(map(repr, self.channels))}"
            expected = f"a Series with the channels {', '.join(map(repr, names))}"
            raise InvalidArgument("X", expected, got, "Give the channels the model was trained on.")
        rows = [self.channels.index(name) for name in names]
        masks = [len(self.channels) + row for row in rows] if self.mask_channels else []
        observations = self.observations[..., rows + masks]
        return replace(self, observations=observations, channels=tuple(names), mask_channels=len(masks))

    def labelled(self, labels: Any, *, classes: Any = None) -> "Series":
        """The same series with labels of any type."""
        indices, known = read_labels(labels, classes, len(self))
        return replace(self, labels=indices, classes=known)

    def unlabelled(self) -> "Series":
        """The same series without their labels."""
        return replace(self, labels=None, classes=None)  # type: ignore[arg-type]

    def require_labels(self) -> "Series":
        """The same series; an error if their labels are not known."""
        if self.labels is None:
            raise InvalidArgument("labels", "known for every series", "none", "Give them as y, or name their column.")
        return self

    def names(self, labels: ArrayLike) -> Names:
        """The names of these class indices."""
        names: Names = self.require_labels().classes[np.asarray(labels)]
        return names

    def class_counts(self) -> IntArray:
        """(classes,): the number of series of each class."""
        return np.bincount(self.require_labels().labels.cpu().numpy(), minlength=len(self.classes))

    def observe(self, rows: Labels, epoch: int) -> Observations:  # noqa: ARG002  (other sources draw anew in each epoch)
        """The observations of these series, the same in every epoch."""
        return self.observations[rows]

    def take(self, indices: ArrayLike) -> "Series":
        """The series at these indices, in this order; the tensor is as long as the longest of them."""
        return self._take(as_indices(indices, len(self), what="series"))

    def _take(self, indices: IntArray) -> "Series":
        longest = int(self.lengths[indices].max())
        return replace(self, observations=self.observations[:, :longest])._indexed(indices)

    def head(self, count: int) -> "Series":
        """The first series, without a copy of their observations."""
        return self._indexed(slice(count))

    def _indexed(self, rows: IntArray | slice) -> "Series":
        fields = {name: value for name, value in vars(self).items() if name in _BY_SERIES and value is not None}
        return replace(self, **{name: value[rows] for name, value in fields.items()})

    def split(self, share: float, seed: int) -> tuple["Series", "Series"]:
        """The rest, and `share` of each class; a class of at least 2 series is on both sides, a single one in the rest."""
        share, random = _as_share(share), np.random.default_rng(as_seed(seed))
        labels = self.require_labels().labels.cpu().numpy()
        chosen = np.zeros(len(self), dtype=np.bool_)
        for label, count in enumerate(self.class_counts()):
            wanted = min(max(round(share * count), 1), max(count - 1, 0))
            chosen[random.permutation(np.flatnonzero(labels == label))[:wanted]] = True
        if not chosen.any():
            got = f"{len(self)} series of {len(self)} different classes"
            expected, remedy = "those of at least 2 series of one class to be split", "Bring more series of each class."
            raise InvalidArgument("labels", expected, got, remedy)
        return self._divided(chosen)

    def split_by_group(self, share: float, seed: int) -> tuple["Series", "Series"]:
        """The rest, and whole groups with a number of series as near to `share` as their random order allows."""
        share, groups = _as_share(share), self.group_indices()
        sizes = np.bincount(groups)
        order = np.random.default_rng(as_seed(seed)).permutation(len(sizes))
        reached = np.cumsum(sizes[order])[:-1]
        return self._divided(np.isin(groups, order[: 1 + int(np.abs(reached - share * len(self)).argmin())]))

    def hold_out(self, share: float, seed: int) -> tuple["Series", "Series"]:
        """`split_by_group` if groups are known, else `split`."""
        return self.split(share, seed) if self.groups is None else self.split_by_group(share, seed)

    def _divided(self, chosen: BoolArray) -> tuple["Series", "Series"]:
        return self._take(np.flatnonzero(~chosen)), self._take(np.flatnonzero(chosen))

    def group_indices(self) -> IntArray:
        """(series,): the index of each series' group; there must be at least 2 groups."""
        remedy = "Give one group for each series, for example the person or the machine it comes from."
        if self.groups is None:
            raise InvalidArgument("groups", "known for a split by group", "None", remedy)
        groups = as_codes(self.groups, name="groups")[1]
        if groups.max() < 1:
            raise InvalidArgument("groups", "at least 2 different ones", "1", remedy)
        return groups

    def batch_indices(self, size: int, seed: int) -> list[IntArray]:
        """The indices of `batches`: each series once, at most `size` in a batch, similar lengths together."""
        size = as_whole(size, name="size", low=1, remedy="It is the number of series in a batch.")
        random = np.random.default_rng(as_seed(seed))
        order, lengths = random.permutation(len(self)), self.lengths.cpu().numpy()
        pools = [order[first : first + _POOL * size] for first in range(0, len(order), _POOL * size)]
        by_length = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
        batches = [pool[first : first + size] for pool in by_length for first in range(0, len(pool), size)]
        return [batches[index] for index in random.permutation(len(batches))]

    def batches(self, size: int, seed: int) -> Iterator["Series"]:
        """Each series once, in batches of at most `size` that need little padding; the seed sets the order."""
        for rows in self.batch_indices(size, seed):
            yield self._take(rows)


def _as_share(share: float) -> float:
    return as_between(share, name="share", low=0.0, high=1.0, remedy="It is a fraction of the series: 0.2 means 20%.")
