"""The series of a plan: generated on the fly from MNIST, or stored features of videos."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from sooner.data import mnist, video
from sooner.data.sets.nmnist import FRAMES, SIDE, Nmnist
from sooner.errors import InvalidArgument
from sooner.lab.experiments.plan import DataPlan, Share
from sooner.series import Series
from sooner.train import Drawn, Source

Split: TypeAlias = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
DIGITS = 10
RAREST = 0.1  # the share of the last class that "tenfold" keeps


@dataclass(frozen=True)
class Videos:
    """The folders of the features from `sooner data features` and of the official split files."""

    features: Path
    splits: Path


@dataclass(frozen=True)
class Sets:
    """The splits of a plan's data.

    Args:
        plan: the data set of the plan.
        videos: the folders of a video data set.
        work: a folder for clips, which do not fit into memory.
        validation: number of validation series (the first ones of the plan), or "all".
    """

    plan: DataPlan
    videos: Videos | None = None
    work: Path = Path()
    validation: Share = "all"

    @property
    def classes(self) -> int:
        """Number of classes."""
        return DIGITS if self.plan.set in FRAMES else len(self._clips("train").classes)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The inputs that the series depend on, for the hash of a stage."""
        clips = {} if self.plan.set in FRAMES else {str(split): self._clip_names(split) for split in SPLITS}
        # The view is in the name of the features' folder, which is among the clip names.
        plan = {key: value for key, value in asdict(self.plan).items() if key != "view"}
        if self.validation == "all":
            return {**plan, **clips}
        # With equal frequencies these are the series of a plan with that many validation series.
        key = "validation" if self.plan.frequencies == "equal" else "validated"
        return {**plan, **clips, key: self.validation}

    def limited(self, validation: Share) -> "Sets":
        """The same with fewer validation series."""
        return replace(self, validation=validation)

    def frames(self, split: Split, *, masks: str, seed: int) -> Source:
        """The frames of a split; with masks "redrawn", the masks differ for each epoch and seed."""
        limit = None if split != "validation" or self.validation == "all" else int(self.validation)
        if self.plan.set not in FRAMES:
            return self._video_features(split, limit)
        digits = getattr(_digits(), split)
        # The limit comes after the thinning of the classes: it keeps the first series of the unlimited set.
        rows = _rows_of_plan(digits.labels, self.plan, split)[:limit]
        redrawn = masks == "redrawn"
        series = Nmnist(
            digits.images[rows],
            digits.labels[rows],
            kind=self.plan.set,  # type: ignore[arg-type]
            split=split,
            seed=seed if redrawn else 0,
        )

        def draw(rows: Tensor, epoch: int) -> Tensor:
            return series.batch(rows, epoch if redrawn else 0).observations

        return Drawn(series.labels, (series.time, SIDE, SIDE), draw)

    def _video_features(self, split: Split, limit: int | None) -> Series:
        clips = self._clips(split)
        self.work.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(json.dumps(self._clip_names(split)).encode()).hexdigest()[:16]
        path = self.work / f"{split}-{digest}.npy"
        series = clips.series_of_file(path) if path.exists() else clips.series_in_file(path)
        asked = getattr(self.plan, split)
        count = len(series) if asked == "all" else int(asked)
        return series.head(min(count, limit or count))

    def _clips(self, split: Split) -> video.Clips:
        if self.videos is None:
            remedy = "Make them with `sooner data features`, then name their folder and that of the split files."
            raise InvalidArgument("features", f"the features of {self.plan.set}", "nothing", remedy)
        name: Any = self.plan.set
        view = None if self.plan.view == "any" else video.view_named(self.plan.view)
        loaded = video.load(name, splits=self.videos.splits, features=self.videos.features, view=view)
        clips: video.Clips = getattr(loaded, split)
        return clips

    def _clip_names(self, split: Split) -> list[Any]:
        clips = self._clips(split)
        return [clips.features.folder.name, len(clips), [clip.name for clip in clips.videos]]


@lru_cache(maxsize=1)
def _digits() -> mnist.Mnist:
    return mnist.load()


def _rows_of_plan(labels: Tensor, plan: DataPlan, split: Split) -> Tensor:
    """The rows of the series that a plan uses; the test set keeps its own frequencies."""
    asked = getattr(plan, split)
    rows = torch.arange(len(labels) if asked == "all" else min(int(asked), len(labels)))
    if plan.frequencies == "equal" or split == "test":
        return rows
    kept = []
    for k, share in enumerate(RAREST ** (np.arange(DIGITS) / (DIGITS - 1))):
        rows_of_class = (labels[rows] == k).nonzero()[:, 0]
        kept.append(rows_of_class[: max(1, round(len(rows_of_class) * share))])
    return rows[torch.cat(kept).sort().values]
