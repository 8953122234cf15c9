"""The prefix scorer: laws, exact scores as reference, calibration, small and uneven training sets, messages."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from torch.nn.functional import cross_entropy

from sooner.checks import MODEL_LAWS, check_model_law
from sooner.data import Gaussian
from sooner.errors import InvalidArgument, SoonerError, UnknownName
from sooner.evaluate import balanced_error, hitting_times, sat_curve
from sooner.models.calibration import Calibration, calibrate, deal
from sooner.models.prefix import PrefixScorer
from sooner.rules import MSPRT

PROCESS = Gaussian.equidistant(3, 0.8)
TIME = 12
FRESH = PROCESS.sample(3000, TIME, seed=99)


class ReadsChannelsFirst(ClassifierMixin, BaseEstimator):
    """A classifier in aeon's manner: it wants (rows, channels, time)."""

    def fit(self, data, labels):
        self.inner_ = LogisticRegression().fit(self._means(data), labels)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, data):
        return self.inner_.predict_proba(self._means(data))

    @staticmethod
    def _means(data):
        assert data.ndim == 3
        assert data.dtype == np.float64
        assert data.shape[1] == 3
        return data.mean(axis=2)


class Counting(GaussianNB):
    calls = 0

    def predict_proba(self, X):  # noqa: N803
        Counting.calls += 1
        return super().predict_proba(X)


def trained(series=2000, *, prior=None, **settings):
    sample = PROCESS.sample(series, TIME, seed=1, prior=prior)
    return PrefixScorer((3,), 3, **settings).fit(sample.observations, sample.labels)


def centred(scores):
    return scores.double() - scores.double().mean(dim=-1, keepdim=True)


def area_ratio(scores):
    """Area under the error of the curve, over that of the exact scores."""
    times = np.linspace(1.5, TIME - 1, 50)
    learned, exact = sat_curve(scores, FRESH.labels), sat_curve(PROCESS.scores(FRESH.observations), FRESH.labels)
    return learned.error_at(times).mean() / exact.error_at(times).mean()


def examples():
    yield from PrefixScorer.examples()
    yield trained(40, classifier=ReadsChannelsFirst(), evaluation_times=[1, 5], layout="aeon")


@pytest.mark.parametrize("law", MODEL_LAWS)
@pytest.mark.parametrize("model", list(examples()), ids=["many", "class missing later", "aeon"])
def test_every_law_holds(model, law):
    check_model_law(model, law)


def test_learned_scores_come_close_to_the_exact_test():
    assert area_ratio(trained().scores(FRESH.observations)) < 1.08


def test_learned_scores_come_closer_with_more_series():
    exact = centred(PROCESS.scores(FRESH.observations))
    apart = [float((centred(trained(n).scores(FRESH.observations)) - exact).square().mean()) for n in (100, 400, 1600)]
    assert apart[0] > 1.5 * apart[1] > 1.5 * 1.5 * apart[2]


def test_imbalanced_training_classes_do_not_bias_the_scores():
    model = trained(prior=[8, 1, 1])
    difference = centred(model.scores(FRESH.observations)) - centred(PROCESS.scores(FRESH.observations))
    prior_left_in = centred(torch.tensor([0.8, 0.1, 0.1]).log())
    assert float(difference.mean(dim=(0, 1)).abs().max()) < 0.1 * float(prior_left_in.abs().max())
    assert area_ratio(model.scores(FRESH.observations)) < 1.12


def test_a_threshold_from_an_error_target_keeps_it():
    decisions = MSPRT(np.log(2 / 0.1)).decide(trained().scores(FRESH.observations))
    missed = np.bincount(FRESH.labels[decisions.crossed & (decisions.labels != FRESH.labels.numpy())], minlength=3)
    assert (missed / np.bincount(FRESH.labels) <= 0.1).all()
    assert hitting_times(decisions).mean < 0.9 * TIME


@pytest.mark.parametrize(
    "classifier", [LogisticRegression(C=1e6, max_iter=5000), GaussianNB(), ExtraTreesClassifier(50, random_state=0)]
)
def test_calibration_improves_the_log_loss_of_a_classifier_that_is_wrong_about_itself(classifier):
    # Every observation is seen twice, which naive Bayes takes for twice the evidence.
    sample = PROCESS.sample(150, TIME, seed=1)
    model = PrefixScorer((6,), 3, classifier=classifier, evaluation_times=[TIME]).fit(
        sample.observations.repeat(1, 1, 2), sample.labels
    )
    (fit,) = model.fitted
    prefixes = FRESH.observations.repeat(1, 1, 2)
    raw = fit.classifier.predict_proba(prefixes.flatten(1).numpy()).clip(fit.floor)
    posterior = model.scores(prefixes)[:, -1] + torch.as_tensor(fit.log_prior)
    before = cross_entropy(torch.as_tensor(raw).log(), FRESH.labels)
    after = cross_entropy(posterior, FRESH.labels)
    assert after < 0.9 * before


def test_calibration_finds_a_known_temperature_and_bias_whatever_the_prior():
    generator = np.random.default_rng(0)
    true, log_prior = generator.normal(size=(20_000, 3)) * 2, np.log([0.7, 0.2, 0.1])
    labels = (true + log_prior + generator.gumbel(size=true.shape)).argmax(axis=1)
    overconfident = 4 * (true - np.array([0.5, 0.0, -0.5]))
    slope, bias = calibrate(overconfident, labels, log_prior)
    assert slope == pytest.approx(0.25, rel=0.03)
    assert bias - bias.mean() == pytest.approx([0.5, 0.0, -0.5], abs=0.08)


def test_calibration_leaves_alone_what_it_has_no_evidence_on():
    log_prior = np.log([0.4, 0.4, 0.2])
    assert calibrate(np.zeros((0, 3)), np.zeros(0, dtype=int), log_prior) == (1.0, pytest.approx([0.0, 0.0, 0.0]))
    slope, bias = calibrate(np.log([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]]), np.array([0, 1]), log_prior)
    assert 1 < slope < 2
    assert bias[2] == 0
    evidence = np.log([[0.6, 0.3, 0.1]])
    assert Calibration(1.0, np.zeros(3))(evidence) == pytest.approx(evidence)


def test_whatever_is_held_out_a_series_of_every_class_stays():
    labels = np.array([0] * 7 + [1] * 2 + [2] + [3] * 3)
    for seed in range(20):
        parts = deal(labels, folds=5, seed=seed)
        assert parts[labels == 2] == [-1]
        assert (parts[labels != 2] >= 0).all()
        assert all(set(labels[parts != part]) == {0, 1, 2, 3} for part in range(5))


@pytest.mark.parametrize("members", [1, 2])
def test_a_class_with_one_or_two_members_is_scored_without_bias_to_the_large_ones(members):
    sample = PROCESS.sample(200, TIME, seed=5)
    small = (sample.labels == 2).nonzero()[:members, 0]
    keep = torch.cat([(sample.labels != 2).nonzero()[:, 0], small])
    model = PrefixScorer((3,), 3, evaluation_times=4).fit(sample.observations[keep], sample.labels[keep])
    scores = model.scores(FRESH.observations)
    assert torch.isfinite(scores).all()
    # Little can be learned about the third class; but it is neither given up nor preferred.
    named = np.bincount(scores[:, -1].argmax(dim=1), minlength=3) / len(scores)
    assert named.min() > 0.1
    assert (scores[:, -1].argmax(dim=1) == FRESH.labels)[FRESH.labels != 2].float().mean() > 0.6


def test_one_series_a_class_is_enough_to_score():
    sample = PROCESS.sample(30, TIME, seed=0)
    first = [int((sample.labels == k).nonzero()[0, 0]) for k in range(3)]
    model = PrefixScorer((3,), 3, evaluation_times=[4]).fit(sample.observations[first], [0, 1, 2])
    assert model.fitted[0].calibration.slope == 1
    assert torch.isfinite(model.scores(FRESH.observations)).all()


def test_series_are_used_up_to_their_own_lengths():
    sample = PROCESS.sample(600, TIME, seed=3)
    lengths = torch.randint(4, TIME + 1, (600,), generator=torch.Generator().manual_seed(0))
    padding = torch.arange(TIME) >= lengths[:, None]
    padded = torch.where(padding[..., None], torch.nan, sample.observations)
    model = PrefixScorer((3,), 3).fit(padded, sample.labels, lengths)
    assert [fit.time for fit in model.fitted] == list(range(1, TIME + 1))
    again = PrefixScorer((3,), 3).fit(sample.observations, sample.labels, lengths)
    assert torch.equal(model.scores(FRESH.observations), again.scores(FRESH.observations))
    assert area_ratio(model.scores(FRESH.observations)) < 1.35


def test_a_class_that_has_ended_keeps_its_odds_against_the_others_together():
    sample = PROCESS.sample(300, TIME, seed=3)
    lengths = torch.where(sample.labels == 1, 6, TIME)
    model = PrefixScorer((3,), 3, evaluation_times=[2, 5, 9]).fit(sample.observations, sample.labels, lengths)
    assert [list(fit.present) for fit in model.fitted] == [[0, 1, 2], [0, 1, 2], [0, 2]]
    scores = model.scores(FRESH.observations)
    odds = scores[..., 1] - scores[..., [0, 2]].logsumexp(dim=2)
    assert torch.allclose(odds[:, 8], odds[:, 7], atol=1e-5)
    assert not torch.allclose(scores[:, 8, 0] - scores[:, 8, 2], scores[:, 7, 0] - scores[:, 7, 2], atol=0.5)


def test_a_checkpoint_that_one_class_alone_reaches_is_left_out():
    sample = PROCESS.sample(60, TIME, seed=3)
    lengths = torch.where(sample.labels == 1, TIME, 6)
    model = PrefixScorer((3,), 3, evaluation_times=[5, 9]).fit(sample.observations, sample.labels, lengths)
    assert [fit.time for fit in model.fitted] == [5]


def test_scores_hold_between_checkpoints_and_say_nothing_before_the_first():
    scores = trained(100, evaluation_times=[3, 7]).scores(FRESH.observations)
    assert not scores[:, :2].any()
    assert torch.equal(scores[:, 2:6], scores[:, 2:3].expand(-1, 4, -1))
    assert torch.equal(scores[:, 6:], scores[:, 6:7].expand(-1, TIME - 6, -1))
    assert not torch.equal(scores[:, 5], scores[:, 6])


@pytest.mark.parametrize(
    ("number", "times"), [(1, [12]), (5, [3, 5, 8, 10, 12]), (12, list(range(1, 13))), (20, list(range(1, 13)))]
)
def test_a_number_of_checkpoints_is_spread_evenly_to_the_longest_series(number, times):
    assert [fit.time for fit in trained(30, evaluation_times=number).fitted] == times


def test_live_steps_cost_the_classifier_only_at_checkpoints():
    model = trained(100, classifier=Counting(), evaluation_times=[3, 7])
    state, Counting.calls = model.init(4), 0
    size = model.bytes_per_stream()
    calls = []
    for t in range(TIME):
        state, _, _ = model.step(state, FRESH.observations[:4, t])
        calls.append(Counting.calls)
    assert calls == [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]
    assert sum(part[0].numel() * part.element_size() for part in state) == size == 7 * 3 * 4 + 8 + 3 * 4


def test_exact_zeros_of_trees_do_not_become_certainty():
    scores = trained(200, classifier=ExtraTreesClassifier(20, random_state=0), evaluation_times=[6, 12]).scores(
        FRESH.observations
    )
    assert float(scores.amax(dim=2).sub(scores.amin(dim=2)).max()) < 15
    assert balanced_error(MSPRT(np.inf).decide(scores), FRESH.labels) < 0.4


def test_the_same_seed_gives_the_same_scores_and_the_given_classifier_stays_unfitted():
    classifier = LogisticRegression()
    one, two = (trained(100, classifier=classifier, evaluation_times=3).scores(FRESH.observations) for _ in range(2))
    assert torch.equal(one, two)
    assert not hasattr(classifier, "classes_")


def test_numpy_arrays_and_observations_of_any_shape_are_read():
    images = np.random.default_rng(0).normal(size=(20, 4, 2, 3)).astype(np.float32)
    labels = np.arange(20) % 2
    images[labels == 1] += 2
    model = PrefixScorer((2, 3), 2, evaluation_times=2).fit(images, labels)
    assert (model.scores(torch.as_tensor(images))[:, -1].argmax(dim=1).numpy() == labels).all()
    assert not list(model.parameters())


X, Y = torch.randn(6, 5, 2, generator=torch.Generator().manual_seed(0)), [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PrefixScorer((2,), 3)(X), r"`model` must be fitted.*Call fit"),
        (lambda: PrefixScorer((2,), 3).init(1), r"`model` must be fitted"),
        (lambda: PrefixScorer((2,), 3).fit(X, [0, 1] * 3), r"`labels` must be .* every class, got none of class 2"),
        (lambda: PrefixScorer((3,), 3).fit(X, Y), r"`observations` must be of shape \(batch, time, 3\)"),
        (lambda: PrefixScorer((2,), 3).fit(X[:0], []), r"`observations` must be a batch of at least 1"),
        (
            lambda: PrefixScorer((2,), 3).fit(X / 0 * 0, Y),
            r"`observations` must be finite, got nan at series 0, time 0",
        ),
        (lambda: PrefixScorer((2,), 3).fit(X, Y, folds=1), r"`folds` must be at least 2"),
        (
            lambda: PrefixScorer((2,), 3, evaluation_times=[2, 9]).fit(X, Y),
            r"`evaluation_times` must be in 1\.\.5, got 9",
        ),
        (lambda: PrefixScorer((2,), 3, evaluation_times=[]), r"`evaluation_times` must be at least 1 time, got none"),
        (lambda: PrefixScorer((2,), 3, evaluation_times=[0, 1]), r"`evaluation_times` must be at least 1, got 0"),
        (lambda: PrefixScorer((2,), 3, evaluation_times=0), r"`evaluation_times` must be at least 1, got 0"),
        (lambda: PrefixScorer((2,), 3, classifier=RidgeClassifier()), r"`classifier` must be .*predict_proba"),
        (lambda: PrefixScorer((2, 2), 3, layout="aeon"), r"`features` must be \(channels,\) for the layout 'aeon'"),
        (
            lambda: PrefixScorer((2,), 3, evaluation_times=[5]).fit(X, Y, [5, 1, 1, 1, 1, 1]),
            r"`evaluation_times` must be times that series of two classes reach",
        ),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(InvalidArgument, match=message) as caught:
        call()
    assert isinstance(caught.value, SoonerError)


def test_an_unknown_layout_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'flat'"):
        PrefixScorer((2,), 3, layout="flatt")


def test_a_missing_value_in_a_live_series_is_refused_at_once():
    model = PrefixScorer((2,), 3).fit(X, Y)
    with pytest.raises(InvalidArgument, match="`observations` must be finite"):
        model.step(model.init(1), torch.tensor([[0.0, torch.nan]]))
