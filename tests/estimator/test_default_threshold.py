"""The threshold after `fit`, the warning where it is no better than guessing, and the menu of others."""

import warnings

import numpy as np
import pytest
import torch

import sooner
from sooner import EarlyClassifier
from sooner.data import HiddenOnset
from sooner.errors import InvalidArgument, NearChance
from sooner.evaluate import (
    achieved,
    default_threshold,
    menu_of,
    midpoint_rule,
    sat_curve,
    threshold_of_least_average_cost,
)
from sooner.rules import MSPRT, FixedTime, Patience
from waves import waves


def onset(classes, distance, rate=0.03):
    return HiddenOnset(tuple(map(tuple, (distance * np.eye(classes)).tolist())), rate)


@pytest.fixture(scope="module")
def late():
    """Three classes whose signal begins at a random time, by rocket."""
    x, y = onset(3, 3.0, rate=0.1).sample(150, 20, seed=0)
    return EarlyClassifier().fit(x.transpose(1, 2), y)


class TestTheDefault:
    @pytest.mark.parametrize("classes", [2, 3, 10])
    @pytest.mark.parametrize("distance", [0.4, 0.6, 1.0])
    @pytest.mark.parametrize("prior", ["equal", "first", "last"])
    def test_is_far_from_chance_wherever_that_can_be_reached(self, classes, distance, prior):
        """Exact scores, so that nothing but the choice can be wrong; judged on other series than it was chosen on."""
        process, frequent = onset(classes, distance), {"first": 0, "last": classes - 1}.get(prior)
        weights = [20.0 if k == frequent else 1.0 for k in range(classes)]
        (x, y), (new, truth) = (process.sample(400, 40, seed=seed, prior=weights) for seed in (1, 2))
        curve, chance = sat_curve(process.scores(x), y), 1 - 1 / classes
        rule = midpoint_rule(MSPRT, curve, default_threshold(curve, classes=classes))
        best = sat_curve(process.scores(new), truth).errors.min()
        assert achieved(rule, process.scores(new), truth).error < chance - 0.5 * (chance - best)

    def test_was_at_chance_where_costs_alone_decided(self):
        process = onset(3, 1.0)
        x, y = process.sample(400, 40, seed=1)
        curve = sat_curve(process.scores(x), y)
        costs = MSPRT(threshold_of_least_average_cost(curve, alpha=0.5))
        assert achieved(costs, process.scores(x), y).near_chance
        assert not achieved(MSPRT(default_threshold(curve, classes=3)), process.scores(x), y).near_chance

    def test_is_that_of_the_costs_where_it_is_far_from_chance_anyhow(self):
        process = onset(2, 2.0, rate=0.5)
        x, y = process.sample(300, 30, seed=1)
        curve = sat_curve(process.scores(x), y)
        assert default_threshold(curve, classes=2) == threshold_of_least_average_cost(curve, alpha=0.8)

    def test_with_nothing_to_learn_is_that_of_the_costs(self):
        curve = sat_curve([[[0.0, 1.0], [2.0, 0.0]]] * 2, [0, 1])
        assert curve.errors.min() == 0.5
        assert default_threshold(curve, classes=2) == threshold_of_least_average_cost(curve, alpha=0.8) == 1.0

    def test_can_be_all_the_way_to_the_least_error(self):
        process = onset(3, 1.0)
        x, y = process.sample(400, 40, seed=1)
        curve = sat_curve(process.scores(x), y)
        place = np.searchsorted(curve.thresholds, default_threshold(curve, classes=3, way=1.0))
        assert curve.errors[place] == curve.errors.min()
        with pytest.raises(InvalidArgument, match=r"`way` must be in 0\.\.1, got 2"):
            default_threshold(curve, classes=3, way=2)

    def test_of_rocket_on_a_random_onset_decides_well(self, late):
        new, truth = onset(3, 3.0, rate=0.1).sample(300, 20, seed=1)
        assert late.score(new.transpose(1, 2), truth) > 0.7
        assert late.threshold > 0


class TestTheWarning:
    def test_of_a_fit_to_noise(self):
        x, y = np.random.default_rng(0).normal(size=(60, 1, 8)), np.arange(60) % 3
        with pytest.warns(
            NearChance, match=r"is near chance: its balanced error on 60 unseen series is .* guessing has 66.7%"
        ) as told:
            EarlyClassifier().fit(x, y)
        assert [warning.filename for warning in told] == [__file__]  # the user's line, not one of ours

    def test_of_a_threshold_that_is_set(self, late, tmp_path):
        before = late.rule_
        with pytest.warns(NearChance, match=r"MSPRT\(threshold=0.0\) is near chance"):
            late.threshold = 0.0
        late.save(tmp_path / "soon.sooner")
        with pytest.warns(NearChance):
            late.threshold = FixedTime(1)
        late.threshold = Patience(3, before)  # says nothing
        late.threshold = before
        assert sooner.load(tmp_path / "soon.sooner").threshold == 0.0  # a file that is read says nothing either

    def test_of_a_threshold_that_is_chosen(self, late):
        before = late.rule_
        with pytest.warns(NearChance):
            late.choose_threshold(max_mean_time=1.0)
        late.choose_threshold(max_error=0.2)
        late.threshold = before

    def test_not_of_a_call_that_changes_nothing(self, late):
        late.decide(np.zeros((1, 3, 20)), threshold=0.0)

    @pytest.mark.parametrize(
        ("wrong", "series", "said"),
        [(0, 3, False), (1, 3, True), (2, 10, False), (3, 10, True), (420, 1000, False), (430, 1000, True)],
    )
    def test_is_of_errors_that_may_be_chance_or_nearly_are(self, wrong, series, said):
        """Two classes, each with so many wrong decisions of so many series."""
        scores = torch.zeros(2 * series, 1, 2)
        truth = torch.arange(2).repeat(series)
        miss = torch.arange(2 * series) < 2 * wrong
        scores[torch.arange(2 * series), 0, torch.where(miss, 1 - truth, truth)] = 1.0
        assert achieved(MSPRT(0.0), scores, truth).near_chance == said

    @pytest.mark.parametrize("groups", [1, 2, 3])
    def test_is_not_of_a_rule_without_errors_on_few_groups(self, groups):
        truth = torch.arange(2).repeat(30)
        scores = torch.nn.functional.one_hot(truth, 2).double()[:, None]
        found = achieved(MSPRT(0.0), scores, truth, groups=np.arange(60) % groups)
        assert not found.near_chance
        assert found.error_high > 0.3  # what is known of new groups is another matter

    def test_is_silent_in_ordinary_life(self, late):
        x, y = waves(90, seed=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            EarlyClassifier().fit(x, y)
        assert late.achieved_.warning() is None


class TestTheMenu:
    def test_is_what_each_threshold_reaches_on_the_held_out_series(self, late):
        held, menu = late.held_out_, late.menu()
        assert [offer.max_error for offer in menu.offers] == [0.1, 0.05, 0.02, 0.01, None]
        assert menu.series == len(held.labels)
        reached = [offer for offer in menu.offers if offer.threshold is not None]
        for offer in reached:
            found = achieved(MSPRT(offer.threshold), held.scores, held.labels, lengths=held.lengths)
            assert (found.error, found.mean_time) == pytest.approx((offer.error, offer.mean_time))
            assert offer.max_error is None or found.error <= offer.max_error
        assert reached[-1].max_error is None
        assert reached[-1].error == late.speed_accuracy_of(MSPRT).errors.min()
        times = [offer.mean_time for offer in reached[:-1]]
        assert times == sorted(times)

    def test_marks_what_cannot_be_reached(self):
        menu = menu_of(sat_curve([[[0.0, 1.0], [3.0, 0.0]], [[2.0, 0.0], [4.0, 0.0]]] * 5, [0, 1] * 5), series=10)
        assert str(menu) == (
            "error at most          error  mean time  threshold\n"
            "          10%  not reachable                      \n"
            "           5%  not reachable                      \n"
            "           2%  not reachable                      \n"
            "           1%  not reachable                      \n"
            "        least          50.0%       1.50        1.5\n"
            "Estimates on 10 held-out series."
        )

    def test_is_told_after_a_fit_that_may_speak(self, capfd):
        x, y = waves(60)
        EarlyClassifier(verbose=1).fit(x, y)
        out, told = capfd.readouterr()
        assert out == ""
        assert told.startswith('Model: rocket ("auto": 60 series, at most 2,000)\n')
        assert "fitting evaluation times" in told
        assert "30/30" in told
        assert "error at most" in told
        assert "Estimates on 60 held-out series." in told
