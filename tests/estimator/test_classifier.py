"""`EarlyClassifier` as a person uses it."""

import numpy as np
import pytest
import torch

import sooner
from sooner import EarlyClassifier
from sooner.data import Series
from sooner.errors import InvalidArgument, UnknownName, UnreachableTarget
from sooner.evaluate import average_cost, balanced_error, sat_curve
from sooner.rules import MSPRT, FixedTime, Patience
from waves import NAMES, unequal, waves


@pytest.fixture(scope="module")
def fitted():
    x, y = waves(90, seed=1)
    return EarlyClassifier().fit(x, y)


@pytest.fixture(scope="module")
def unseen():
    return waves(150, seed=2)


def accuracy_at_the_end(clf, unseen):
    return (clf.decide(unseen[0], threshold=np.inf).labels == unseen[1]).mean()


def test_defaults_on_small_data_are_sensible_and_say_what_they_took(fitted, unseen):
    assert fitted.model_name_ == "rocket"
    assert fitted.order_ == "full"
    assert fitted.classes_.tolist() == NAMES.tolist()
    assert fitted.score(*unseen) > 0.75
    assert 2 < fitted.decide(unseen[0]).times.mean() < 20


def test_the_held_out_numbers_hold_on_new_data(fitted, unseen):
    new = fitted.decide(unseen[0])
    error = balanced_error(new, unseen[1])
    assert fitted.achieved_.error_low - 0.05 < error < fitted.achieved_.error_high + 0.05
    assert abs(new.times.mean() - fitted.achieved_.mean_time) < 3


def test_after_fit_the_threshold_has_the_least_average_cost_of_those_far_from_chance(fitted):
    held, chance = fitted.held_out_, 2 / 3
    allowed = chance - 0.75 * (chance - fitted.speed_accuracy_of(MSPRT).errors.min())

    def cost(rule):
        return average_cost(
            rule.decide(held.scores, held.lengths), held.labels, lengths=held.lengths, alpha=0.8
        ), balanced_error(rule.decide(held.scores, held.lengths), held.labels)

    chosen, error = cost(fitted.rule_)
    assert error <= allowed
    for other in np.linspace(0, 8, 33):
        paid, error = cost(MSPRT(other))
        assert chosen <= paid + 1e-12 or error > allowed


def test_predictions_are_names_and_probabilities_belong_to_the_decision(fitted, unseen):
    x = unseen[0][:20]
    labels, posterior, decisions = fitted.predict(x), fitted.predict_proba(x), fitted.decide(x)
    assert set(labels) <= set(NAMES)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)
    np.testing.assert_array_equal(NAMES[posterior.argmax(axis=1)], labels)
    scores = fitted.scores(x).scores[np.arange(20), decisions.times - 1]
    np.testing.assert_allclose(posterior, fitted.posterior_calibration_.posterior(scores, decisions.times))


def test_scores_are_finite_and_zero_beyond_each_length(fitted, unseen):
    cases = unequal(unseen[0][:10])
    scores, lengths = fitted.scores(cases)
    assert lengths.tolist() == [case.shape[1] for case in cases]
    assert np.isfinite(scores).all()
    assert all(not scores[i, lengths[i] :].any() for i in range(10))


def test_a_list_of_equal_lengths_is_an_array(fitted, unseen):
    x = unseen[0][:10]
    assert fitted.decide(list(x)) == fitted.decide(x) == fitted.decide(torch.as_tensor(x))


def test_two_axes_are_series_of_one_channel():
    x, y = waves(60)
    flat = EarlyClassifier().fit(x[:, 0], y)
    assert flat.decide(x[:, 0]) == EarlyClassifier().fit(x[:, :1], y).decide(x[:, :1])


def test_unequal_lengths_in_training():
    x, y = waves(90, seed=1)
    clf = EarlyClassifier().fit(unequal(x), y)
    assert clf.score(*waves(150, seed=2)) > 0.7


@pytest.mark.parametrize("labels", [[10, 20, 30], [0.0, 1.0, 2.0], [True, False], ["a", "b", "c"], [-1, 1]])
def test_labels_of_any_type_come_back(labels):
    x, y = waves(60)
    names = np.array(labels)[np.searchsorted(NAMES, y) % len(labels)]
    predicted = EarlyClassifier().fit(x, names).predict(x)
    assert predicted.dtype == names.dtype
    assert set(predicted.tolist()) <= set(labels)


def test_series_longer_and_shorter_than_any_in_training(fitted, unseen):
    x = unseen[0][:6]
    long = np.concatenate([x, x], axis=2)
    assert (fitted.decide(long).times <= 60).all()
    assert fitted.decide(x[:, :, :1]).times.tolist() == [1] * 6


class TestMissingValues:
    def test_are_masked_on_request(self):
        x, y = waves(90, seed=1)
        holes = np.random.default_rng(0).random(x.shape) < 0.1
        x[holes] = np.nan
        clf = EarlyClassifier(missing="mask").fit(x, y)
        new, labels = waves(150, seed=2)
        new[np.random.default_rng(1).random(new.shape) < 0.1] = np.nan
        assert clf.score(new, labels) > 0.7
        live = clf.stream()
        decision = next((d for t in range(30) if (d := live.update(new[0, :, t]))), None) or live.finish()
        batch = clf.decide(new[:1])
        assert (decision.label, decision.time) == (batch.labels[0], batch.times[0])

    def test_are_refused_by_place_otherwise(self):
        x, y = waves(30)
        x[3, 1, 7] = np.nan
        message = r"`X` must be finite, got nan at series 3, time 7, channel 1 \(counted from 0\)."
        with pytest.raises(InvalidArgument, match=message):
            EarlyClassifier().fit(x, y)


class TestTheDial:
    def test_turns_by_a_number_a_matrix_and_a_rule(self, unseen):
        x, y = waves(60)
        clf = EarlyClassifier().fit(x, y)
        clf.threshold = 1.5
        assert clf.rule_ == MSPRT(1.5)
        assert clf.threshold == 1.5
        clf.threshold = np.full((3, 3), 1.5)
        assert clf.decide(unseen[0]) == clf.decide(unseen[0], threshold=1.5)
        clf.threshold = Patience(2, MSPRT(1.0))
        assert clf.threshold == Patience(2, MSPRT(1.0))
        assert clf.decide(unseen[0], threshold=FixedTime(4)).times.tolist() == [4] * 150

    def test_later_is_slower_and_better(self, fitted, unseen):
        quick, slow = fitted.decide(unseen[0], 0.2), fitted.decide(unseen[0], 3.0)
        assert quick.times.mean() < slow.times.mean() - 2
        assert balanced_error(slow, unseen[1]) < balanced_error(quick, unseen[1])

    def test_by_maximal_error_mean_time_and_cost(self, unseen):
        x, y = waves(90, seed=1)
        clf = EarlyClassifier().fit(x, y)
        found = clf.choose_threshold(*unseen, max_error=0.15)
        assert found.rule == clf.rule_
        assert found.error <= 0.15
        assert found.error_low < found.error < found.error_high
        assert found.error == pytest.approx(balanced_error(clf.decide(unseen[0]), unseen[1]))
        assert clf.choose_threshold(*unseen, max_mean_time=6.0).mean_time <= 6.0
        dear = clf.choose_threshold(*unseen, cost_of_waiting=0.1).mean_time
        assert dear < clf.choose_threshold(*unseen, cost_of_waiting=0.001).mean_time

    def test_needs_no_data_but_the_held_out_ones(self):
        x, y = waves(90, seed=1)
        clf = EarlyClassifier().fit(x, y)
        found = clf.choose_threshold(max_mean_time=5.0)
        assert found.series == 90
        assert found.mean_time <= 5.0

    def test_an_unreachable_target_says_so_and_changes_nothing(self, unseen):
        x, y = waves(60)
        clf = EarlyClassifier().fit(x, y)
        before = clf.threshold
        with pytest.raises(UnreachableTarget, match=r"No threshold reaches `max_mean_time` of 0.5"):
            clf.choose_threshold(*unseen, max_mean_time=0.5)
        assert clf.threshold == before

    def test_a_deadline_makes_every_series_as_short(self, fitted, unseen):
        x = unseen[0]
        assert fitted.decide(x, deadline=5) == fitted.decide(x[:, :, :5])

    def test_abstaining_names_no_class(self, fitted, unseen):
        decisions = fitted.decide(unseen[0], 4.0, deadline=8, at_end="abstain")
        assert 0 < (~decisions.crossed).sum() < 150
        assert all(label is None for label in decisions.labels[~decisions.crossed])
        assert set(decisions.labels[decisions.crossed]) <= set(NAMES)

    def test_priors_shift_decisions_towards_the_frequent_class(self, unseen):
        x, y = waves(90, seed=1)
        clf = EarlyClassifier().fit(x, y)
        equal = (clf.predict(unseen[0]) == "calm").mean()
        clf.priors = {"calm": 0.9, "fast": 0.05, "slow": 0.05}
        shifted = (clf.predict(unseen[0]) == "calm").mean()
        assert shifted > equal + 0.05
        by_name = clf.scores(unseen[0]).scores
        clf.priors = [0.9, 0.05, 0.05]
        np.testing.assert_array_equal(clf.scores(unseen[0]).scores, by_name)
        live, times = clf.stream(), clf.decide(unseen[0][:1])
        decision = next((d for t in range(30) if (d := live.update(unseen[0][0, :, t]))), None) or live.finish()
        assert (decision.label, decision.time) == (times.labels[0], times.times[0])

    def test_training_priors_are_the_frequencies(self):
        x, y = waves(90)
        keep = np.flatnonzero((y != "fast") | (np.arange(90) % 2 == 0))
        clf = EarlyClassifier(priors="training").fit(x[keep], y[keep])
        clf_equal = EarlyClassifier().fit(x[keep], y[keep])
        difference = clf.scores(x).scores[0, 0] - clf_equal.scores(x).scores[0, 0]
        np.testing.assert_allclose(difference - difference[0], np.log([1.0, 0.5, 1.0]), atol=1e-6)


def test_the_curve_is_that_of_the_scores(fitted, unseen):
    curve = fitted.speed_accuracy(*unseen)
    scores, lengths = fitted.scores(unseen[0])
    assert curve == sat_curve(scores, np.searchsorted(NAMES, unseen[1]), lengths=lengths)


@pytest.mark.parametrize("rule", ["log_odds", "probability_threshold", "fixed_time"])
def test_other_rules_get_a_threshold_too(rule, unseen):
    x, y = waves(60)
    clf = EarlyClassifier(rule=rule).fit(x, y)
    assert np.ndim(clf.threshold) == 0
    assert clf.score(*unseen) > 0.5
    assert clf.choose_threshold(*unseen, max_mean_time=8.0).mean_time <= 8.0 + 0.1


@pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # twice the leader is soon
def test_a_rule_without_a_threshold_has_no_curve(unseen):
    x, y = waves(60)
    with pytest.raises(InvalidArgument, match="`rule` must be one with a threshold, got 'patience'"):
        EarlyClassifier(rule="patience").fit(x, y)
    clf = EarlyClassifier().fit(x, y)
    clf.threshold = Patience(2)
    with pytest.raises(InvalidArgument, match="`rule` must be one with a threshold"):
        clf.speed_accuracy(*unseen)


class TestOtherModels:
    @pytest.mark.parametrize("model", ["recurrent", "gru", "earliest"])
    def test_trained_by_steps(self, model, unseen):
        x, y = waves(150, seed=1)
        clf = EarlyClassifier(model=model, max_epochs=3, hidden=16).fit(x, y)
        assert clf.model_name_ == model
        assert len(clf.held_out_) == 30
        assert clf.training_["steps"] > 0
        assert accuracy_at_the_end(clf, unseen) > 0.42
        assert EarlyClassifier(model=model, max_epochs=3, hidden=16).fit(x, y).decide(x) == clf.decide(x)

    @pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # hardly trained
    def test_an_order_gives_windows(self):
        x, y = waves(60)
        clf = EarlyClassifier(model="recurrent", order=3, max_epochs=1, hidden=8).fit(x, y)
        assert clf.order_ == clf.model_.order == 3

    @pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # hardly trained
    def test_many_series_go_to_the_recurrent_model(self):
        x, y = waves(2400, time=6)
        clf = EarlyClassifier(max_epochs=1, hidden=4).fit(x, y)
        assert clf.model_name_ == "recurrent"

    def test_any_classifier_on_prefixes(self, unseen):
        from sklearn.ensemble import ExtraTreesClassifier

        x, y = waves(60)
        clf = EarlyClassifier(model=ExtraTreesClassifier(20, random_state=0)).fit(x, y)
        assert clf.model_name_ == "prefix"
        assert clf.score(*unseen) > 0.4

    def test_a_settings_record_says_it_all(self):
        settings = sooner.train.settings.settings_from_dict(
            {"model": {"hidden": 5, "order": 2}, "training": {"iterations": 3}}
        )
        x, y = waves(60)
        clf = EarlyClassifier(model="recurrent", settings=settings).fit(x, y)
        assert clf.settings_.model.hidden == 5
        assert clf.training_["steps"] == 3
        assert (clf.training_["precision"], clf.training_["precision_note"]) == ("32", "")


class TestWeightsAndGroups:
    @pytest.mark.parametrize("model", ["rocket", "recurrent"])
    def test_series_of_no_weight_are_not_learned_from(self, model, unseen):
        x, y = waves(240, seed=1)
        wrong = np.arange(240) % 2 == 0
        noisy = np.where(wrong, np.roll(NAMES, 1)[np.searchsorted(NAMES, y)], y)
        clf = EarlyClassifier(model=model, max_epochs=4, hidden=16)
        weighted = accuracy_at_the_end(clf.fit(x, noisy, sample_weight=np.where(wrong, 0.0, 1.0)), unseen)
        assert weighted > accuracy_at_the_end(clf.fit(x, noisy), unseen) + 0.1

    @pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # half of the labels are wrong
    def test_heavier_series_count_for_more(self, unseen):
        x, y = waves(120, seed=1)
        rival = np.arange(120) % 2 == 0
        mixed = np.where(rival, np.roll(NAMES, 1)[np.searchsorted(NAMES, y)], y)
        agreement = [
            (
                EarlyClassifier(model="recurrent", max_epochs=6, hidden=16).fit(x, mixed, weights).predict(unseen[0])
                == unseen[1]
            ).mean()
            for weights in (np.where(rival, 1.0, 9.0), np.where(rival, 9.0, 1.0))
        ]
        assert agreement[0] > agreement[1] + 0.2

    @pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # hardly trained
    def test_groups_stay_on_one_side(self):
        x, y = waves(60)
        groups = np.arange(60) // 6
        clf = EarlyClassifier(model="recurrent", max_epochs=1, hidden=4).fit(x, y, groups=groups)
        assert len(clf.held_out_) % 6 == 0


def test_an_interrupted_training_goes_on_in_its_folder(tmp_path, monkeypatch):
    from sooner.train import loop

    x, y = waves(60)
    whole = EarlyClassifier(model="recurrent", max_epochs=6, hidden=8).fit(x, y)
    write, count = loop.save_checkpoints, []

    def interrupt(*given):
        write(*given)
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save_checkpoints", interrupt)
    clf = EarlyClassifier(model="recurrent", max_epochs=6, hidden=8, folder=tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        clf.fit(x, y)
    clf.fit(x, y)
    assert clf.decide(x) == whole.decide(x)
    with pytest.raises(InvalidArgument, match="`folder` must be without a run on other data"):
        clf.fit(x[:, ::-1], y)


@pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # hardly trained
def test_fit_writes_nothing_and_says_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    x, y = waves(60)
    EarlyClassifier(model="recurrent", max_epochs=1, hidden=4).fit(x, y)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_series_that_files_were_read_into(unseen):
    x, y = waves(60)
    clf = EarlyClassifier().fit(Series.from_aeon(x, y, channels=["a", "b"]))
    assert clf.columns_.channels == ("a", "b")
    assert clf.decide(unseen[0]) == EarlyClassifier().fit(x, y).decide(unseen[0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"model": "rockt"}, UnknownName, "`model` must be one of .* Did you mean 'rocket'?"),
        ({"rule": "msprt2"}, UnknownName, "`rule` must be one of .*, got 'msprt2'. Did you mean 'msprt'?"),
        ({"priors": "fair"}, InvalidArgument, "`priors` must be 'equal', 'training', or one number for each class"),
        ({"priors": {"calm": 1}}, InvalidArgument, "`priors` must be one for each of"),
        ({"priors": [1, 1, 0]}, InvalidArgument, "`priors` must be above 0"),
        ({"missing": "drop"}, UnknownName, "`missing` must be one of 'mask', 'refuse'"),
        ({"validation_share": 1.5}, InvalidArgument, "`validation_share` must be"),
        ({"model": "recurrent", "loss": "lsell"}, UnknownName, "Did you mean 'lsel'?"),
        ({"model": "recurrent", "max_epochs": 0}, InvalidArgument, "`max_epochs` must be at least 1"),
        ({"random_state": -1}, InvalidArgument, "`random_state` must be at least 0"),
    ],
)
def test_bad_arguments_are_answered_by_a_sentence(arguments, error, message):
    x, y = waves(30)
    with pytest.raises(error, match=message):
        EarlyClassifier(**arguments).fit(x, y)


def test_bad_thresholds_and_labels_are_answered_by_a_sentence(fitted, unseen):
    with pytest.raises(
        InvalidArgument, match="a number, a rule, or a matrix of shape \\(3, 3\\), got shape \\(2, 2\\)"
    ):
        fitted.decide(unseen[0], np.ones((2, 2)))
    with pytest.raises(InvalidArgument, match=r"`y` must be among the classes .*, got 'odd' at index 1"):
        fitted.choose_threshold(unseen[0][:2], ["calm", "odd"], max_error=0.1)
    with pytest.raises(InvalidArgument, match="`y` must be given together with X"):
        fitted.choose_threshold(unseen[0], max_error=0.1)
    with pytest.raises(InvalidArgument, match=r"of shape \(\.\.\., 2\), got shape \(150, 30, 1\)"):
        fitted.decide(unseen[0][:, :1])
    with pytest.raises(UnknownName, match="`at_end` must be one of 'abstain', 'force', 'set'"):
        fitted.decide(unseen[0], at_end="guess")


def test_one_series_of_each_class_is_too_little():
    x, y = waves(3)
    with pytest.raises(InvalidArgument, match="`y` must be a class with at least 2 series, got 3 series of 3 classes"):
        EarlyClassifier().fit(x, y)


class TestLiveEqualsBatch:
    """Whatever type the numbers come in."""

    @pytest.mark.parametrize("offset", [0, 10**6, 1_700_000_000])
    def test_whole_numbers_and_floats_with_a_large_offset(self, offset):
        x, y = waves(60)
        x = np.round(10 * x).astype(np.int64) + offset
        clf = EarlyClassifier().fit(x, y)
        batch = clf.scores(x[:5]).scores
        for make in (list, lambda values: [float(v) for v in values], lambda values: np.asarray(values)):
            live = clf.stream(keyed=True)
            live.rule = MSPRT(np.inf)
            for t in range(30):
                live.update({key: make(x[key, :, t].tolist()) for key in range(5)})
            np.testing.assert_allclose([live.scores(key) for key in range(5)], batch[:, -1], atol=1e-4)

    def test_an_open_stream_keeps_the_scales_it_began_with(self):
        x, y = waves(60)
        clf = EarlyClassifier().fit(x, y)
        expected, live = clf.scores(x[:1]).scores[0, -1], clf.stream()
        live.rule = MSPRT(np.inf)
        clf.fit(100 * x + 1000, y)
        for t in range(30):
            live.update(x[0, :, t])
        np.testing.assert_allclose(live.scores, expected, atol=1e-5)


class TestWhatCannotBeLearned:
    def test_a_class_of_no_weight(self):
        x, y = waves(60)
        for model in ("rocket", "recurrent"):
            with pytest.raises(
                InvalidArgument, match="`y` must be a series of every class to learn from, got none of 'slow'"
            ):
                EarlyClassifier(model=model).fit(x, y, sample_weight=(y != "slow").astype(float))

    def test_from_one_group_or_from_groups_of_one_class(self):
        x, y = waves(30)
        with pytest.raises(InvalidArgument, match="`groups` must be at least 2 different ones"):
            EarlyClassifier().fit(x, y, groups=np.zeros(30, dtype=int))
        with pytest.raises(InvalidArgument, match="`groups` must be with a class that is in two of them"):
            EarlyClassifier().fit(x, y, groups=y)
        with pytest.raises(InvalidArgument, match="`groups` must be of one type"):
            EarlyClassifier().fit(x, y, groups=np.array([1, "a"] * 15, dtype=object))

    @pytest.mark.filterwarnings("ignore::sooner.errors.NearChance")  # hardly trained
    def test_a_run_goes_on_with_the_weights_it_began_with(self, tmp_path):
        x, y = waves(60)
        clf = EarlyClassifier(model="recurrent", max_epochs=1, hidden=4, folder=tmp_path / "run").fit(x, y)
        with pytest.raises(InvalidArgument, match="`folder` must be without a run on other data"):
            clf.fit(x, y, sample_weight=np.arange(60) + 1.0)


def test_lists_of_one_channel_may_be_of_unequal_lengths():
    x, y = waves(60)
    cases = [case[0] for case in unequal(x)]
    clf = EarlyClassifier().fit(cases, y)
    assert clf.decide([case.tolist() for case in cases]) == clf.decide(cases)
    assert clf.decide([[1.0, 2.0], [1.0]]).times.max() <= 2


def test_a_column_of_labels_is_judged_as_it_is_learned(fitted, unseen):
    column = unseen[1][:, None]
    with pytest.warns(Warning, match="column-vector"):
        assert fitted.score(unseen[0], column) == fitted.score(*unseen)


def test_a_rule_for_another_number_of_classes_is_refused_at_once(fitted):
    with pytest.raises(InvalidArgument, match="of 2 classes, as the threshold matrix is, got 3 classes"):
        fitted.threshold = MSPRT(np.ones((2, 2)))


def test_an_unfitted_classifier_says_so():
    from sklearn.exceptions import NotFittedError

    clf = EarlyClassifier()
    for ask in (lambda: clf.achieved_, lambda: clf.threshold, clf.stream, lambda: clf.save("x.sooner")):
        with pytest.raises(NotFittedError):
            ask()
