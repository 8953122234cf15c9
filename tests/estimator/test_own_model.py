"""A user's own `Model` behind the face of `EarlyClassifier`: dial, file, stream, grid search."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sooner
from sooner import EarlyClassifier, Series
from sooner.errors import InvalidArgument
from sooner.estimator import ErrorAt, LeastAverageCost
from sooner.models import Model
from sooner.models.base import LiveStep
from sooner.types import Windows
from waves import unequal, waves


class RunningMean(Model):
    """Linear in the mean of what was read so far, and in the mean of its squares."""

    def __init__(self, features, classes, scale=1.0):
        super().__init__(features, classes)
        self.linear = torch.nn.Linear(2 * features[0], classes)
        self.scale = scale

    def forward(self, observations, lengths=None):
        observations, _ = self.admit(observations, lengths)
        both = torch.cat([observations, observations.square()], dim=2)
        counts = torch.arange(1, both.shape[1] + 1)[:, None]
        return Windows(self.scale * self.linear(both.cumsum(dim=1) / counts)[:, None])

    def init(self, streams):
        return torch.zeros(streams, 2 * self.features[0]), torch.zeros(streams, 1)

    def step(self, state, observation):
        observation = self.admit_step(state, observation)
        total, count = state[0] + torch.cat([observation, observation.square()], dim=1), state[1] + 1
        return LiveStep((total, count), self.scale * self.linear(total / count))

    @classmethod
    def examples(cls):
        yield cls((2,), 3)


OPTIONS = {"max_epochs": 10, "loss": "lsel", "learning_rate": 0.05}


@pytest.fixture(scope="module")
def fitted():
    x, y = waves(200, seed=1)
    return EarlyClassifier(RunningMean, **OPTIONS).fit(x, y)


@pytest.fixture(scope="module")
def unseen():
    return waves(150, seed=2)


def test_it_is_trained_and_has_the_whole_dial(fitted, unseen):
    assert (fitted.model_name_, type(fitted.model_)) == ("own", RunningMean)
    assert fitted.score(*unseen) > 0.5
    fast, slow = (fitted.choose_threshold(*unseen, max_mean_time=time) for time in (3.0, 12.0))
    assert fast.mean_time <= 3.0 < slow.mean_time <= 12.0
    assert slow.error < fast.error


def test_live_it_decides_as_in_a_batch(fitted, unseen):
    stored, fleet = fitted.decide(unseen[0][:20]), fitted.stream(keyed=True)
    found = {}
    for t in range(unseen[0].shape[2]):
        found |= fleet.update({case: unseen[0][case, :, t] for case in range(20) if case not in found})
    found |= {case: fleet.finish(case) for case in range(20) if case not in found}
    assert [found[case].label for case in range(20)] == stored.labels.tolist()
    assert [found[case].time for case in range(20)] == stored.times.tolist()


def test_the_model_that_was_given_stays_untrained(unseen):
    x, y = waves(200, seed=1)
    given = RunningMean((2,), 3)
    before = given.linear.weight.clone()
    clf = EarlyClassifier(given, **OPTIONS).fit(x, y)
    assert torch.equal(given.linear.weight, before)
    assert not torch.equal(clf.model_.linear.weight, before)
    again = clone(clf).fit(x, y)
    assert again.predict(unseen[0]).tolist() == clf.predict(unseen[0]).tolist()


def test_a_file_has_its_weights_and_asks_for_its_code(fitted, unseen, tmp_path):
    path = tmp_path / "own.sooner"
    fitted.save(path)
    with pytest.raises(InvalidArgument) as caught:
        sooner.load(path)
    assert str(caught.value) == (
        "`model` must be given, as the file holds your own RunningMean, got None. "
        "The file has its weights, not its code: sooner.load(path, model=RunningMean)."
    )
    loaded = sooner.load(path, model=RunningMean)
    assert loaded.decide(unseen[0]).times.tolist() == fitted.decide(unseen[0]).times.tolist()
    np.testing.assert_array_equal(loaded.scores(unseen[0]).scores, fitted.scores(unseen[0]).scores)
    with pytest.raises(InvalidArgument, match="for observations of shape"):
        sooner.load(path, model=RunningMean((5,), 3))
    with pytest.raises(InvalidArgument, match="`model` must be one that the weights of the file fit"):
        sooner.load(path, model=_of_another_size)


def test_a_grid_search_tries_what_makes_it():
    x, y = waves(90, seed=3)
    grid = {"model": [_small, RunningMean]}
    search = GridSearchCV(EarlyClassifier(**OPTIONS), grid, scoring=ErrorAt(6.0), cv=2).fit(x, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["model"] in grid["model"]


def _of_another_size(features, classes):
    model = RunningMean(features, classes)
    model.linear = torch.nn.Linear(7, classes)
    return model


def _small(features, classes):
    return RunningMean(features, classes, scale=0.1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda features, classes: torch.nn.Linear(features[0], classes), "one that makes a Model, got Linear"),
        (RunningMean((3,), 3), r"for observations of shape \(2,\) and 3 classes, got \(3,\) and 3 classes"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(model, message):
    x, y = waves(30)
    with pytest.raises(InvalidArgument, match=message):
        EarlyClassifier(model).fit(x, y)


# --- scorers ------------------------------------------------------------------------------------------------------------


def test_scorers_compare_at_the_same_speed_whatever_the_threshold_is(unseen):
    x, y = waves(90, seed=1)
    clf = EarlyClassifier().fit(x, y)
    curve = clf.speed_accuracy(*unseen)
    before = [scorer(clf, *unseen) for scorer in (ErrorAt(5.0), LeastAverageCost(0.8))]
    assert before[0] == -curve.error_at(5.0)
    assert before[1] == pytest.approx(-min(0.8 * curve.error_rates + 0.2 * curve.earliness))
    clf.threshold = 9.0
    assert [scorer(clf, *unseen) for scorer in (ErrorAt(5.0), LeastAverageCost(0.8))] == before


@pytest.mark.parametrize(
    ("make", "name"), [(lambda: ErrorAt(0.5), "mean_time"), (lambda: LeastAverageCost(2.0), "alpha")]
)
def test_scorers_refuse_what_they_cannot_mean(make, name):
    with pytest.raises(InvalidArgument, match=f"`{name}` must be"):
        make()


# --- the record in the place of arrays ----------------------------------------------------------------------------------


def test_a_series_goes_wherever_arrays_go():
    x, y = waves(90, seed=1)
    cases, names = unequal(x), y
    given, record = EarlyClassifier().fit(cases, names), EarlyClassifier().fit(Series.of(cases, names))
    new_x, new_y = waves(50, seed=2)
    new = Series.of(new_x, new_y)
    assert record.rule_ == given.rule_
    assert record.predict(new).tolist() == given.predict(new_x).tolist()
    assert record.scores(new).labels.tolist() == new.labels.tolist()
    assert record.evaluate(new) == given.evaluate(new_x, new_y)
    assert record.choose_threshold(new, max_error=0.2) == given.choose_threshold(new_x, new_y, max_error=0.2)
    np.testing.assert_array_equal(record.speed_accuracy(new).errors, given.speed_accuracy(new_x, new_y).errors)
    assert record.menu(new).to_dict() == given.menu(new_x, new_y).to_dict()


def test_labels_of_a_series_are_known_by_their_names_not_by_their_indices():
    x, y = waves(90, seed=1)
    clf = EarlyClassifier().fit(x, y)
    new_x, new_y = waves(50, seed=2)
    other_order = Series.of(new_x, new_y, classes=sorted(set(new_y), reverse=True))
    assert clf.evaluate(other_order) == clf.evaluate(new_x, new_y)


def test_weights_and_groups_of_a_series_are_those_of_the_arguments():
    x, y = waves(60, seed=1)
    weights, groups = np.where(np.arange(60) < 6, 0.0, 1.0), np.arange(60) // 3
    given = EarlyClassifier().fit(x, y, sample_weight=weights, groups=groups)
    record = EarlyClassifier().fit(Series.of(x, y, weights=weights, groups=groups))
    assert record.achieved_ == given.achieved_
    assert len(record.held_out_) == 54


def test_a_series_without_labels_is_scored_but_not_learned_from():
    x, y = waves(60, seed=1)
    clf, unlabelled = EarlyClassifier().fit(x, y), Series.of(x)
    assert clf.predict(unlabelled).tolist() == clf.predict(x).tolist()
    assert clf.scores(unlabelled).labels is None
    for call in (EarlyClassifier().fit, clf.evaluate):
        with pytest.raises(InvalidArgument):
            call(unlabelled)
