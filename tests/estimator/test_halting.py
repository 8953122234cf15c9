"""EARLIEST stopped by its own halting probability, through every door of the classifier."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

import sooner
from sooner import EarlyClassifier
from sooner.errors import InvalidArgument
from sooner.evaluate import stopping_curve
from sooner.models import Earliest
from sooner.rules import FITTERS, MSPRT, Halting, Patience
from sooner.stream import Decision
from waves import NAMES, unequal, waves

MISSING = "`halting` must be the model's own halting statistic, got None"


def halting_classifier(**words):
    return EarlyClassifier(model="earliest", rule="halting", max_epochs=6, hidden=12, **words)


@pytest.fixture(scope="module")
def fitted():
    return halting_classifier().fit(*waves(150, seed=1))


@pytest.fixture(scope="module")
def unseen():
    return waves(60, seed=2)


def live(clf, case):
    stream = clf.stream()
    return next((found for now in case.T if (found := stream.update(now))), None) or stream.finish()


def test_it_is_fitted_with_a_threshold_of_its_own(fitted):
    assert isinstance(fitted.rule_, Halting)
    assert isinstance(fitted.model_, Earliest)
    assert fitted.threshold == fitted.rule_.threshold
    assert fitted.achieved_.rule == fitted.rule_
    assert len(fitted.menu().offers) == 5


def test_its_curve_is_that_of_the_models_statistic(fitted, unseen):
    x, y = unseen
    scored, labels = fitted.scores(x), np.searchsorted(NAMES, y)
    assert scored.halting.shape == scored.scores.shape[:2]
    expected = stopping_curve(scored.halting, scored.scores.argmax(axis=2), labels, lengths=scored.lengths, classes=3)
    assert fitted.speed_accuracy(x, y) == expected


@pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # at once is too soon
def test_the_dial_turns_by_a_target_and_by_hand(fitted, unseen):
    clf = halting_classifier().fit(*waves(150, seed=1))
    assert clf.rule_ == fitted.rule_
    found = clf.choose_threshold(*unseen, max_mean_time=10.0)
    assert isinstance(found.rule, Halting)
    assert clf.decide(unseen[0]).times.mean() == pytest.approx(found.mean_time)
    assert clf.choose_threshold(max_mean_time=10.0).mean_time <= 10.0
    clf.threshold = 0.0
    assert (clf.decide(unseen[0]).times == 1).all()
    clf.threshold = Patience(3, Halting(0.0))
    assert (clf.decide(unseen[0]).times >= 3).all()
    clf.threshold = MSPRT(1.0)
    assert clf.decide(unseen[0], threshold=Halting(0.0)).times.max() == 1


@pytest.mark.parametrize("mean_time", [3.5, 7.5, 15.5])
def test_live_series_are_decided_as_in_batch(fitted, mean_time):
    x, clf = unequal(waves(40, seed=3)[0]), copy(fitted)
    clf.choose_threshold(max_mean_time=mean_time)
    batch = clf.decide(x)
    assert len(set(batch.times.tolist())) > 1
    for case, label, time, crossed in zip(x, batch.labels, batch.times, batch.crossed, strict=True):
        assert live(clf, case) == Decision(label, time, crossed)


def test_a_fleet_goes_on_from_a_snapshot_to_the_same_decisions(fitted, unseen):
    x, batch = unseen[0], fitted.decide(unseen[0])
    fleet, decided = fitted.stream(keyed=True), {}
    for t in range(x.shape[2]):
        if t == 4:
            saved, fleet = fleet.snapshot(), fitted.stream(keyed=True)
            fleet.restore(saved)
        decided |= fleet.update({key: x[key, :, t] for key in range(len(x)) if key not in decided})
    decided |= fleet.finish_all()
    assert [decided[key].time for key in range(len(x))] == batch.times.tolist()
    assert [decided[key].label for key in range(len(x))] == batch.labels.tolist()


def test_a_file_keeps_the_statistic_beside_the_scores(fitted, unseen, tmp_path):
    fitted.save(tmp_path / "m.sooner")
    loaded = sooner.load(tmp_path / "m.sooner")
    assert loaded.rule_ == fitted.rule_
    assert loaded.achieved_ == fitted.achieved_
    assert loaded.decide(unseen[0]) == fitted.decide(unseen[0])
    assert loaded.choose_threshold(max_mean_time=9.0).mean_time <= 9.0


def test_a_file_from_before_there_was_this_rule_can_be_stopped_by_it(fitted, unseen, tmp_path):
    old = copy(fitted)
    old.held_out_ = replace(fitted.held_out_, halting=None)
    old.save(tmp_path / "m.sooner")
    loaded = sooner.load(tmp_path / "m.sooner")
    loaded.threshold = Halting(0.0)
    assert (loaded.decide(unseen[0]).times == 1).all()
    assert loaded.choose_threshold(*unseen, max_mean_time=9.0).mean_time <= 9.0
    with pytest.raises(InvalidArgument, match=MISSING):
        loaded.choose_threshold(max_mean_time=9.0)


def test_scores_and_proba_stand_beside_it(fitted, unseen):
    assert fitted.predict(unseen[0]).tolist() == fitted.decide(unseen[0]).labels.tolist()
    np.testing.assert_allclose(fitted.predict_proba(unseen[0]).sum(axis=1), 1.0, atol=1e-6)


class TestRefused:
    @pytest.mark.parametrize("model", ["auto", "rocket", "recurrent", "gru", "prefix"])
    def test_before_training_of_a_model_without_the_statistic(self, model, monkeypatch):
        monkeypatch.setattr("sooner.train.train", None)
        with pytest.raises(InvalidArgument, match=r"`rule` must be one that reads scores for the model .*earliest"):
            EarlyClassifier(model=model, rule="halting").fit(*waves(60))

    def test_where_a_threshold_is_set(self):
        clf = EarlyClassifier().fit(*waves(60))
        before = clf.rule_
        for rule in (Halting(0.5), Patience(2, Halting(0.5))):
            with pytest.raises(InvalidArgument, match=MISSING):
                clf.threshold = rule
        assert clf.rule_ == before

    def test_a_name_that_is_none_is_answered_with_those_that_are_taken(self):
        taken = sorted([*FITTERS, "fixed_time", "halting", "log_odds", "msprt", "probability_threshold"])
        with pytest.raises(InvalidArgument, match=", ".join(map(repr, taken))):
            EarlyClassifier(rule="patient").fit(*waves(60))
