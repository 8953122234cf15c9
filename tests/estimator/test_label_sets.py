"""Label sets of a classifier: batch and live, by coverage, and what they need."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import sooner
from sooner import EarlyClassifier
from sooner.data import Gaussian, Series
from sooner.errors import FullSets, InvalidArgument
from sooner.evaluate import coverage_limit
from sooner.rules import MSPRT, SingleLabel
from sooner.stream import Decision

PROCESS, NAMES = Gaussian.equidistant(3, 0.8), np.array(["calm", "rain", "storm"])


def drawn(count, seed):
    x, y = PROCESS.sample(count, 20, seed=seed)
    return x.transpose(1, 2).numpy(), NAMES[y]


@pytest.fixture(scope="module")
def clf():
    fitted = EarlyClassifier().fit(*drawn(120, 0))
    fitted.calibrate(*drawn(199, 1))
    return fitted


@pytest.fixture(scope="module")
def unseen():
    return drawn(300, 2)


def folded(clf, x, **options):
    """The decisions of live series."""
    live = []
    for series in x:
        stream = clf.stream(**options)
        for now in series.T:
            if stream.update(now):
                break
        live.append(stream.finish())
    return live


def test_sets_contain_the_true_label_as_often_as_promised(clf, unseen):
    x, y = unseen
    for coverage in (0.5, 0.9):
        sets = clf.label_sets(x, coverage)
        members = sets.members[np.arange(len(y)), :, np.searchsorted(NAMES, y)]
        # Over calibration sets of 199 and new sets of 300 the share has a standard deviation of at most 5%.
        assert abs(members.all(axis=1).mean() - coverage) < 0.15
    assert sets.members.shape == (300, 20, 3)
    assert sets.classes == tuple(NAMES)
    assert sets.limit == clf.single_label(0.9).limit
    assert clf.label_sets(x[:2]).last == sets.last[:2]
    assert 1 < sets.sizes[:, 4].mean() < 3


def test_the_limit_is_that_of_the_calibration_series_with_the_priors_of_today(clf):
    x, y = drawn(199, 1)
    scores = clf.scores(Series.from_aeon(x, y))
    assert clf.single_label(0.8) == SingleLabel(coverage_limit(scores.scores, scores.labels, coverage=0.8), 3)
    other = sooner.EarlyClassifier(priors=[0.2, 0.2, 0.6])
    before, clf.priors = clf.priors, other.priors
    try:
        scores = clf.scores(Series.from_aeon(x, y))
        expected = coverage_limit(scores.scores, scores.labels, coverage=0.8)
        assert clf.single_label(0.8).limit == pytest.approx(expected)
        assert clf.label_sets(x[:1], 0.8).limit == pytest.approx(expected)
    finally:
        clf.priors = before
    assert clf.single_label(0.8).limit != pytest.approx(expected)


@pytest.mark.parametrize("deadline", [None, 6])
def test_live_decisions_with_sets_at_the_end_are_those_of_the_batch(clf, unseen, deadline):
    x = unseen[0][:60]
    for rule in (MSPRT(4.0), clf.single_label(0.95)):
        before, clf.threshold = clf.rule_, rule
        batch = clf.decide(x, deadline=deadline, at_end="set", coverage=0.95)
        live = folded(clf, x, deadline=deadline, at_end="set", coverage=0.95)
        clf.rule_ = before
        assert [d.label for d in live] == batch.labels.tolist()
        assert [(d.time, d.crossed) for d in live] == list(
            zip(batch.times.tolist(), batch.crossed.tolist(), strict=True)
        )
        assert {d.crossed for d in live} == {True, False}
    assert all(len(d.label) > 1 for d in live if not d.crossed)


def test_live_sets_are_read_by_key_and_are_those_of_the_batch(clf, unseen):
    x = unseen[0][:5]
    sets, fleet, live = clf.label_sets(x, 0.95), clf.stream(keyed=True, coverage=0.95), clf.stream(coverage=0.95)
    fleet.rule = live.rule = MSPRT(math.inf)
    for t in range(20):
        fleet.update({key: series[:, t] for key, series in enumerate(x)})
        live.update(x[0, :, t])
        assert [fleet.labels(key) for key in range(5)] == sets.at(t + 1)
        assert live.labels == fleet.labels(0)
    again = clf.stream(keyed=True, coverage=0.95)
    again.rule = MSPRT(math.inf)
    again.restore(fleet.snapshot())
    assert [again.labels(key) for key in range(5)] == sets.last


def test_the_coverage_at_the_end_is_that_of_the_rule_or_90_percent(clf, unseen):
    x = unseen[0][:40]
    by_default = clf.decide(x, MSPRT(math.inf), at_end="set").labels.tolist()
    assert by_default == clf.label_sets(x, 0.9).last
    rule = clf.single_label(0.995)
    decisions = clf.decide(x, rule, at_end="set")
    at_end = clf.label_sets(x, 0.995).last
    assert not decisions.crossed.all()
    assert [label for label, crossed in zip(decisions.labels, decisions.crossed, strict=True) if not crossed] == [
        names for names, crossed in zip(at_end, decisions.crossed, strict=True) if not crossed
    ]


def test_a_series_like_no_class_is_decided_as_none(clf, unseen):
    strange = np.concatenate([3 * unseen[0][:1, [0, 1, 2], :8], 3 * unseen[0][:1, [1, 2, 0], 8:]], axis=2)
    rule = SingleLabel(-20.0, 3)  # the evidence against every class passes it at once
    decisions = clf.decide(strange, rule)
    assert decisions.labels.tolist() == [None]
    assert decisions.crossed.all()
    live = clf.stream()
    live.rule = rule
    assert live.update(strange[0, :, 0]) == Decision(None, 1, True)


def test_too_few_calibration_series_leave_all_sets_full_and_that_is_said(clf, unseen):
    with pytest.warns(FullSets, match=r"a coverage of 99\.9% needs at least 999 calibration series .*, got 199"):
        sets = clf.label_sets(unseen[0][:3], 0.999)
    assert sets.members.all()
    assert sets.limit == math.inf
    with pytest.warns(FullSets):
        assert clf.single_label(0.999).limit == math.inf


def test_one_series_of_each_group_calibrates(clf):
    groups = np.repeat(np.arange(50), 4)[:199]
    other = sooner.EarlyClassifier()
    other.__dict__.update(clf.__dict__)
    other.calibrate(*drawn(199, 1), groups=groups)
    assert math.isfinite(other.single_label(0.98).limit)
    with pytest.warns(FullSets, match="needs at least 99 calibration series .* got 50"):
        other.single_label(0.99)


def test_the_alarm_watches_the_decisions_of_the_calibration_series(clf, unseen):
    watch = clf.watch(0.3, delta=0.05)
    assert watch.statistics == ("time", "log_odds")
    for decision, truth in zip(folded(clf, unseen[0], coverage=0.9), unseen[1], strict=True):
        watch.see({"time": decision.time, "log_odds": decision.log_odds})
        watch.label(decision.label, truth)
    assert watch.holds
    shuffled = unseen[0][:, [1, 2, 0]] * 2  # sensors that were exchanged, with another gain
    for decision, truth in zip(folded(clf, shuffled, coverage=0.9), unseen[1], strict=True):
        watch.see({"time": decision.time, "log_odds": decision.log_odds})
        watch.label(decision.label, truth)
    assert not watch.holds


def test_a_promise_is_what_is_watched_by_default(clf):
    other = sooner.EarlyClassifier()
    other.__dict__.update(clf.__dict__)
    assert other.watch().promised is None
    other.choose_threshold(max_error=0.3, confidence=0.9, risk="error")
    assert other.watch().promised == 0.3
    assert other.watch(0.2).promised == 0.2
    other.choose_threshold(max_error=0.3, confidence=0.9)
    with pytest.raises(
        InvalidArgument, match="`class_shares` must be given for a promise of the balanced error, got None"
    ):
        other.watch()
    shares = dict.fromkeys(NAMES.tolist(), 1 / 3)
    assert other.watch(class_shares=shares).promised == 0.3
    with pytest.raises(InvalidArgument, match=r"`class_shares` must be a share for each of the classes \["):
        other.watch(class_shares=dict.fromkeys(NAMES.tolist()[:2], 1 / 2))
    other.choose_threshold(max_error=0.9, confidence=0.5, risk="class_error")
    with pytest.raises(InvalidArgument, match="`error` must be given where 'class_error' is promised"):
        other.watch()


def test_a_file_and_the_command_line_have_the_sets(clf, unseen, tmp_path):
    clf.save(tmp_path / "m.sooner")
    loaded, x = sooner.load(tmp_path / "m.sooner"), unseen[0][:6]
    assert np.array_equal(loaded.label_sets(x).members, clf.label_sets(x).members)
    lines = [json.dumps({"series": key, "x": series[:, t].tolist()}) for key, series in enumerate(x) for t in range(20)]
    (tmp_path / "lines").write_text("\n".join(lines))
    command = [sys.executable, "-m", "sooner", "stream", str(tmp_path / "m.sooner"), "--threshold", "6"]
    with (tmp_path / "lines").open() as given:
        done = subprocess.run(
            [*command, "--at-end", "set", "--coverage", "0.95"], stdin=given, capture_output=True, text=True, check=True
        )
    said = {record["series"]: record for record in map(json.loads, done.stdout.splitlines())}
    expected = clf.decide(x, 6.0, at_end="set", coverage=0.95)
    for key, (label, crossed) in enumerate(zip(expected.labels, expected.crossed, strict=True)):
        assert said[key]["crossed"] == crossed
        assert said[key]["label"] == (label if crossed else list(label))
    assert {record["crossed"] for record in said.values()} == {True, False}
    refused = subprocess.run([*command, "--coverage", "0.9"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "must be given with --at-end set only, got 0.9 with force" in " ".join(refused.stderr.split())


def test_what_is_missing_or_wrong_gets_one_sentence(clf, unseen):
    plain = EarlyClassifier()
    plain.__dict__.update({**clf.__dict__, "calibration_": None})
    sentence = r"`calibration_` must be known for label sets and alarms, got None\. Fit with calibration_share"
    for ask in (
        lambda: plain.label_sets(unseen[0]),
        lambda: plain.single_label(),
        lambda: plain.stream(coverage=0.9),
        lambda: plain.stream(keyed=True, at_end="set"),
        lambda: plain.decide(unseen[0], at_end="set"),
        lambda: plain.watch(0.05),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            ask()
    with pytest.raises(InvalidArgument, match="`coverage` must be between 0 and 1"):
        clf.label_sets(unseen[0], 95)
    live = clf.stream()
    live.update(unseen[0][0, :, 0])
    with pytest.raises(InvalidArgument, match="`limit` must be given to read label sets"):
        _ = live.labels
