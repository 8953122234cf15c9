"""Plans: the models of a comparison, its data, and the times and tables of its report (`plan_file` reads them from TOML)."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from sooner.data.sets.nmnist import FRAMES
from sooner.data.sets.video.frames import VIEWS
from sooner.data.sets.video.lists import VIDEO_SETS
from sooner.errors import InvalidArgument, UnknownName
from sooner.fields import check_choice, check_whole
from sooner.inputs import as_number
from sooner.lab.experiments.published import published
from sooner.lab.tuning.space import SearchSpace
from sooner.train.settings import Settings, changed

Share: TypeAlias = int | Literal["all"]

_SHARE = 'It counts series; or write "all".'


@dataclass(frozen=True)
class DataPlan:
    """The data set of a plan.

    Args:
        set: the name of the data set.
        frequencies: "equal" keeps the classes of the training and validation sets as they are; "tenfold" thins them out, from
            all series of class 0 to a tenth of the last class.
        train, validation, test: number of series of each split (the first ones), or "all".
        view: the view that the features of videos must have been made with: "crop", "whole", or "any".
    """

    set: str
    frequencies: str = "equal"
    train: Share = "all"
    validation: Share = "all"
    test: Share = "all"
    view: str = "any"

    def __post_init__(self) -> None:
        check_choice(self, "data.set", (*FRAMES, *VIDEO_SETS))
        check_choice(self, "data.frequencies", ("equal", "tenfold"))
        check_choice(self, "data.view", ("any", *VIEWS))
        for split in ("train", "validation", "test"):
            check_whole(self, f"data.{split}", 1, _SHARE, word="all")
        if self.view != "any" and self.set not in VIDEO_SETS:
            raise InvalidArgument("data.view", f"'any' for {self.set}", repr(self.view), "Only videos have a view.")
        if self.frequencies != "equal" and self.set in VIDEO_SETS:
            remedy = "Only the classes of digits can be thinned out."
            raise InvalidArgument("data.frequencies", f"'equal' for {self.set}", repr(self.frequencies), remedy)


@dataclass(frozen=True)
class Contender:
    """One model of a comparison: its training and its rule.

    Args:
        name: the name in tables.
        settings: the settings of its training.
        reads: "features" of the encoder, or "frames", the original data.
        masks: "fixed", or "redrawn" in every epoch of training (for data sets that are generated).
        rule: "msprt", "fixed_time" or "halting" (`sooner.rules.RULES`).
        validation: number of validation series during its training, or "all".
        published: its name in the published table, if that is different.
        scores_of: the model whose training and scores it shares, so that only the rule differs; "" for none.
        search: the search space for tuning.
    """

    name: str
    settings: Settings
    reads: str = "features"
    masks: str = "fixed"
    rule: str = "msprt"
    validation: Share = "all"
    published: str = ""
    scores_of: str = ""
    search: SearchSpace | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        table = f"models.{self.name}"
        check_choice(self, f"{table}.reads", ("features", "frames"))
        check_choice(self, f"{table}.masks", ("fixed", "redrawn"))
        check_choice(self, f"{table}.rule", ("msprt", "fixed_time", "halting"))
        check_whole(self, f"{table}.validation", 1, _SHARE, word="all")
        if self.masks == "redrawn" and self.reads == "features":
            remedy = 'Features are written once. Set reads = "frames".'
            raise InvalidArgument(f"{table}.masks", "'fixed' where features are read", "'redrawn'", remedy)
        if self.rule == "halting" and self.settings.model.name != "earliest":
            remedy = 'Only model.name = "earliest" has a halting probability.'
            raise InvalidArgument(f"{table}.rule", "'msprt' or 'fixed_time' here", "'halting'", remedy)

    @property
    def trained_as(self) -> str:
        """The name of the model whose training it uses: its own, or that of `scores_of`."""
        return self.scores_of or self.name


@dataclass(frozen=True)
class Plan:
    """The models of a comparison, its data set, and the times and tables of its report.

    Args:
        name: the name of the file.
        profile: the profile for which it was read.
        title: one line.
        data: the data set.
        contenders: the models.
        encoder: a model of single frames whose features the others read, trained with seed 0 on masks that are redrawn in
            every epoch; None if the models read the data themselves.
        encoder_set: the data set that the encoder is trained on; "" for that of the plan. Features are always those of the
            plan's own set, so several sets can share one trained encoder.
        times: the mean times of the table.
        headline: the name of the model of interest.
        headline_times: the mean times at which it is reported first.
        phases: the mean times "early" and "late" of the two-way analysis of variance; with one phase it is one-way, and
            without phases it is one-way at the last of `times`.
        published: the name of the published table, or "".
        about: how the profile shortens the training.
        seeds: default number of trials of each model.
        trajectories: number of series that are drawn with their log-likelihood ratios.
        history: the models whose loss and error during training are reported; in a file `true` stands for all of them.
        tuning: keys of [training] that the trials of tuning have instead of those of the model, for example fewer iterations.
            The training with the chosen settings has the model's own.
    """

    name: str
    profile: str
    title: str
    data: DataPlan
    contenders: tuple[Contender, ...]
    times: tuple[float, ...]
    encoder: Contender | None = None
    encoder_set: str = ""
    headline: str = ""
    headline_times: tuple[float, ...] = ()
    phases: tuple[tuple[str, float], ...] = ()
    published: str = ""
    about: str = ""
    seeds: int = 3
    trajectories: int = 0
    history: tuple[str, ...] = ()
    tuning: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not self.contenders:
            raise InvalidArgument("models", "at least 1", "none", "Name one: [models.MSPRT-TANDEM.model].")
        self._check_contenders()
        self._check_encoder_set()
        for contender in self.contenders:
            self.tuning_settings(contender)
        trained = [contender.name for contender in self.contenders if not contender.scores_of]
        for name in self.history:
            if name not in trained:
                raise UnknownName("history", str(name), trained)
        known = [contender.name for contender in self.contenders]
        if self.headline and self.headline not in known:
            raise UnknownName("headline", self.headline, known)
        check_whole(self, "seeds", 1, "It counts the trials of each model.")
        check_whole(self, "trajectories", 0, "It counts series.")
        for key in ("times", "headline_times"):
            if not isinstance(getattr(self, key), tuple):
                remedy = f"For example {key} = [2, 5, 10]."
                raise InvalidArgument(key, "a list of mean times", repr(getattr(self, key)), remedy)
        for time in (*self.times, *self.headline_times, *dict(self.phases).values()):
            as_number(time, name="times", low=1.0, remedy="A mean time is at least 1.")
        if not self.times:
            raise InvalidArgument("times", "at least 1 mean time", "none", "For example times = [2, 5, 10].")

    def _check_contenders(self) -> None:
        trained = [contender.name for contender in self.contenders if not contender.scores_of]
        rows = published(self.published) if self.published else {}
        for contender in self.contenders:
            table = f"models.{contender.name}"
            if contender.scores_of and contender.scores_of not in trained:
                raise UnknownName(f"{table}.scores_of", contender.scores_of, trained)
            if contender.published and contender.published not in rows:
                raise UnknownName(f"{table}.published", contender.published, rows)
            if contender.masks == "redrawn" and self.data.set in VIDEO_SETS:
                remedy = "Only generated digits have masks."
                raise InvalidArgument(f"{table}.masks", f"'fixed' for {self.data.set}", "'redrawn'", remedy)

    def _check_encoder_set(self) -> None:
        if not self.encoder_set:
            return
        if self.encoder_set not in FRAMES:
            raise UnknownName("encoder.set", str(self.encoder_set), FRAMES)
        if self.data.set not in FRAMES:
            remedy = "Only the frames of generated digits are alike."
            raise InvalidArgument("encoder.set", f"left out for {self.data.set}", repr(self.encoder_set), remedy)

    @property
    def encoder_data(self) -> DataPlan:
        """The data that the encoder is trained on."""
        return replace(self.data, set=self.encoder_set) if self.encoder_set else self.data

    def tuning_settings(self, contender: Contender) -> Settings:
        """The settings that all trials of tuning share, for one of the models."""
        return for_trials(contender.settings, self.tuning)

    def contender(self, name: str) -> Contender:
        """The model of that name."""
        by_name = {contender.name: contender for contender in self.contenders}
        if name not in by_name:
            raise UnknownName("model", name, by_name)
        return by_name[name]


def for_trials(settings: Settings, tuning: Iterable[tuple[str, Any]]) -> Settings:
    """The settings with the keys of [training] that a plan has for the trials of tuning."""
    return changed(settings, {f"training.{key}": value for key, value in tuning})
