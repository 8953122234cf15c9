"""A classifier that gives up early: what is promised, live and in batch, in a file and on a device."""

import warnings

import numpy as np
import pytest

import sooner
from sooner import EarlyClassifier
from sooner.errors import InvalidArgument, NotCertified
from sooner.evaluate import certified_giving_up
from sooner.rules import MSPRT, GiveUp
from sooner.stream import Decision
from waves import waves


@pytest.fixture(scope="module")
def calibration():
    x, y = waves(500, seed=7)
    x[::5] = 5.0 + 3.0 * np.random.default_rng(1).normal(size=x[::5].shape)  # these series say nothing
    return x, y


@pytest.fixture(scope="module")
def fitted():
    return EarlyClassifier().fit(*waves(90))


@pytest.fixture
def clf(fitted, tmp_path):
    fitted.save(tmp_path / "before.sooner")
    return sooner.load(tmp_path / "before.sooner")


def reached(clf, calibration):
    clf.threshold = MSPRT(6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return clf.give_up(*calibration, max_error=0.1, confidence=0.9)


def test_it_sets_the_rule_and_the_promise_and_says_how_many_are_answered(clf, calibration):
    found = reached(clf, calibration)
    wanted = certified_giving_up(MSPRT(6.0), clf.judged(*calibration), 0.1, 0.9)
    assert clf.rule_ == wanted.rule == found.rule
    assert clf.promise_ == wanted
    assert clf.rule_.below > 0.0
    assert found.note == str(wanted)
    labels = clf.decide(calibration[0]).labels
    answered = np.array([label is not None for label in labels])
    assert found.answered == answered.mean() < 1
    assert found.answered_error == (labels != calibration[1])[answered].mean() < 0.1
    assert found.error_rate == (labels != calibration[1]).mean()
    assert clf.evaluate(*calibration).answered == found.answered
    assert clf.promise_.claim.startswith("error among the answered series at most 10% with 90% confidence; ")
    again = clf.give_up(*calibration, max_error=0.1, confidence=0.9)  # of the rule inside
    assert again.rule == found.rule


@pytest.mark.parametrize("deadline", [None, 4])
def test_live_decisions_are_those_of_the_batch_also_after_a_snapshot(clf, calibration, deadline):
    reached(clf, calibration)
    x = calibration[0][:60]
    batch = clf.decide(x, deadline=deadline)
    fleet, decided = clf.stream(keyed=True, deadline=deadline), {}
    for t in range(x.shape[2]):
        decided |= fleet.update({key: x[key, :, t] for key in range(60) if key not in decided})
        other = clf.stream(keyed=True, deadline=deadline)
        other.restore(fleet.snapshot())
        fleet = other
    decided |= fleet.finish_all()
    assert [decided[key].label for key in range(60)] == batch.labels.tolist()
    assert [(decided[key].time, decided[key].crossed) for key in range(60)] == list(
        zip(batch.times.tolist(), batch.crossed.tolist(), strict=True)
    )
    given_up = [decision for decision in decided.values() if decision.label is None]
    assert set(given_up) == ({Decision(None, clf.rule_.at, True)} if deadline is None else set())


def test_a_file_keeps_promise_and_rule_and_a_change_drops_the_promise(clf, calibration, tmp_path):
    reached(clf, calibration)
    clf.save(tmp_path / "model.sooner")
    loaded = sooner.load(tmp_path / "model.sooner")
    assert (loaded.rule_, loaded.promise_) == (clf.rule_, clf.promise_)
    assert loaded.decide(calibration[0]) == clf.decide(calibration[0])
    loaded.rule_ = GiveUp(clf.rule_.rule, clf.rule_.at, clf.rule_.below + 0.01)
    assert loaded.promise_ is None
    clf.choose_threshold(max_mean_time=12)  # of the rule inside
    assert isinstance(clf.rule_, MSPRT)
    assert clf.promise_ is None


def test_kept_calibration_series_and_groups_are_read(clf, calibration):
    groups = np.arange(500) // 2
    clf.calibrate(*calibration, groups=groups)
    clf.threshold = MSPRT(6.0)
    clf.give_up(max_error=0.2, confidence=0.9)
    assert (clf.promise_.series, clf.promise_.groups) == (125, 250)
    kept = clf.promise_
    clf.give_up(*calibration, max_error=0.2, confidence=0.9, groups=groups)
    assert clf.promise_ == kept


def test_what_would_break_the_promise_is_refused(clf, calibration):
    x, y = calibration
    with pytest.raises(InvalidArgument, match=r"must be calibration series for a promise, got None"):
        clf.give_up(max_error=0.1)
    with pytest.raises(InvalidArgument, match="got the held-out series"):
        clf.give_up(clf.judged(), max_error=0.1)
    with pytest.raises(InvalidArgument, match="series that training has not seen"):
        clf.give_up(*waves(90), max_error=0.1)
    with pytest.raises(InvalidArgument, match="`max_error` must be between 0 and 1, ends left out"):
        clf.give_up(x, y, max_error=5)
    with pytest.raises(InvalidArgument, match="`confidence` must be between 0 and 1, ends left out"):
        clf.give_up(x, y, max_error=0.1, confidence=95)
    before = clf.rule_
    with pytest.raises(NotCertified, match="No way of giving up can be certified"):
        clf.give_up(x[:20], y[:20], max_error=0.05)
    assert clf.rule_ == before
    clf.choose_threshold(x, y, max_error=0.5, confidence=0.9)
    with pytest.raises(
        InvalidArgument, match="`X` must be series that did not choose the current rule, got those that"
    ):
        clf.give_up(x, y, max_error=0.5)
