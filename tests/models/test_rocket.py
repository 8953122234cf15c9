"""Running convolutions, the ridge that leaves one out, and the model on both."""

import numpy as np
import pytest
import torch

from sooner.errors import InvalidArgument
from sooner.evaluate import sat_curve, threshold_of_least_cost
from sooner.models.rocket.features import GRID, RunningFeatures, dilations_for
from sooner.models.rocket.model import Rocket
from sooner.models.rocket.ridge import RIDGES, _ridges, fit_linear
from sooner.rules import MSPRT, FixedTime
from sooner.stream import Stream


def wavy(series, time, seed=0, channels=2):
    """Two classes of noise with another frequency in the first channel."""
    random = np.random.default_rng(seed)
    labels = np.arange(series) % 2
    phase = random.uniform(0, 6, (series, 1))
    wave = np.sin(np.arange(time) * np.where(labels, 0.9, 0.5)[:, None] + phase)
    x = random.normal(size=(series, time, channels))
    x[..., 0] = 0.7 * x[..., 0] + wave
    return torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(labels)


def fitted_features(x, lengths, seed=0):
    features = RunningFeatures(x.shape[2], dilations_for(x.shape[1]))
    features.fit(x, lengths, seed=seed)
    return features


def test_features_are_the_shares_of_exceeded_thresholds_and_plain_statistics():
    x, _ = wavy(5, 20)
    features = fitted_features(x, torch.full((5,), 20))
    grid = np.round(x.numpy() * GRID).astype(np.int64)
    time, row = 13, 3
    counts = np.zeros(features.limits.shape)
    for place, dilation in enumerate(features.dilations):
        for kernel in range(84):
            u = grid[row] @ features.mixes[place, kernel].numpy().astype(np.int64)
            for t in range(time):
                taps = [u[t - j * dilation] if t - j * dilation >= 0 else 0 for j in range(8, -1, -1)]
                value = int(np.dot(features.kernels[kernel].numpy(), taps))
                counts[place, kernel] += value > features.limits[place, kernel].numpy()
    seen = grid[row, :time] / GRID
    steps = np.abs(np.diff(seen, axis=0)).sum(axis=0) / time
    plain = [seen.mean(0), seen.std(0), steps, seen.max(0), seen.min(0), seen[-1]]
    found = features.at(x, [5, time])[row, 1].numpy()
    np.testing.assert_array_equal(found[: features.counted], (counts / time).astype(np.float32).ravel())
    np.testing.assert_allclose(found[features.counted :], np.concatenate(plain), rtol=1e-5, atol=1e-6)


def test_kernels_are_minirockets_with_three_twos_among_nine():
    kernels = RunningFeatures(1, (1,)).kernels
    assert kernels.shape == (84, 9)
    assert (kernels.sum(dim=1) == 0).all()
    assert len({tuple(row) for row in kernels.tolist()}) == 84


def test_live_features_are_those_of_the_batch_to_the_bit():
    x, _ = wavy(4, 60, channels=3)
    x[0, :30] = 0.1  # a constant, where thresholds are nearly met
    features = fitted_features(x, torch.full((4,), 60))
    state = features.init(4)
    for t in range(60):
        state = features.step(state, x[:, t])
        if t in (0, 7, 59):
            assert torch.equal(features.of(state), features.at(x, [t + 1])[:, 0])


def test_what_is_left_out_is_what_a_fit_without_that_series_says():
    random = np.random.default_rng(0)
    for rows, width in ((12, 30), (40, 5)):
        x, y = random.normal(size=(rows, width)), random.normal(size=(rows, 2))
        x, y = x - x.mean(0), y - y.mean(0)
        weights = np.ones(rows)
        for ridge, fit in zip(RIDGES, _ridges(x, y, weights, np.arange(rows)), strict=True):
            for out in (0, rows - 1):
                keep = np.arange(rows) != out
                xm, ym = x[keep].mean(0), y[keep].mean(0)
                xc, yc = x[keep] - xm, y[keep] - ym
                beta = np.linalg.solve(xc.T @ xc + ridge * np.eye(width), xc.T @ yc)
                np.testing.assert_allclose(fit.left_out[out], (x[out] - xm) @ beta + ym, rtol=1e-5, atol=1e-6)


def test_groups_are_left_out_as_a_whole():
    random = np.random.default_rng(0)
    x, y, groups = (
        random.normal(size=(12, 30)),
        random.normal(size=(12, 2)),
        np.array([0, 1, 0, 2, 2, 2, 3, 4, 5, 5, 6, 1]),
    )
    x, y = x - x.mean(0), y - y.mean(0)
    for ridge, fit in zip(RIDGES, _ridges(x, y, np.ones(12), groups), strict=True):
        for group in range(7):
            keep = groups != group
            xm, ym = x[keep].mean(0), y[keep].mean(0)
            xc, yc = x[keep] - xm, y[keep] - ym
            beta = np.linalg.solve(xc.T @ xc + ridge * np.eye(30), xc.T @ yc)
            np.testing.assert_allclose(fit.left_out[~keep], (x[~keep] - xm) @ beta + ym, rtol=1e-4, atol=1e-5)


def test_a_person_in_two_series_does_not_make_the_left_out_scores_too_good():
    """Series come in copies that share their noise: only leaving both out is honest."""
    x, _ = wavy(60, 20, seed=1)
    random = torch.Generator().manual_seed(0)
    copies = torch.cat([x, x + 0.05 * torch.randn(x.shape, generator=random)])
    noise = torch.randint(0, 2, (60,), generator=random).repeat(2)  # labels that nothing can tell
    alone = Rocket.fit(copies, noise).left_out[:, -1].argmax(1) == noise
    together = Rocket.fit(copies, noise, groups=torch.arange(60).repeat(2)).left_out[:, -1].argmax(1) == noise
    assert alone.double().mean() > 0.85
    assert together.double().mean() < 0.7


def test_a_weight_of_two_is_a_series_twice():
    x, labels = wavy(20, 10, channels=3)
    weights = np.where(np.arange(20) < 5, 2.0, 1.0)
    table, twice = x.flatten(1).double().numpy(), np.repeat(np.arange(20), weights.astype(int))
    y = np.eye(2)[labels]
    weighted = next(
        _ridges(table - np.average(table, 0, weights), y - np.average(y, 0, weights), weights, np.arange(20))
    )
    repeated = next(
        _ridges(
            table[twice] - table[twice].mean(0), y[twice] - y[twice].mean(0), np.ones(len(twice)), np.arange(len(twice))
        )
    )
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, rtol=1e-6, atol=1e-8)


def test_series_without_weight_change_nothing():
    x, labels = wavy(30, 12)
    some = Rocket.fit(x[:20], labels[:20]).model
    features = RunningFeatures(2, some.running.dilations)
    assert features.counted == some.running.counted
    weights = torch.arange(30) < 20
    wrong = torch.where(weights, labels, 1 - labels)
    one = Rocket.fit(x, wrong, weights=weights.double(), seed=3).model
    other = Rocket.fit(x, labels, weights=weights.double(), seed=3).model
    assert torch.equal(one.scores(x), other.scores(x))


def test_left_out_scores_are_as_honest_as_test_data():
    x, labels = wavy(120, 40, seed=1)
    new_x, new_labels = wavy(400, 40, seed=2)
    model, left_out = Rocket.fit(x, labels)
    seen = (model.scores(x)[:, -1].argmax(1) != labels).double().mean()
    honest = (left_out[:, 11].argmax(1) != labels).double().mean()
    truth = (model.scores(new_x)[:, 11].argmax(1) != new_labels).double().mean()
    assert seen == 0
    assert abs(honest - truth) < 0.12
    assert 0.02 < truth < 0.45


def test_pure_noise_gives_scores_near_zero():
    x = torch.randn(60, 20, 1, generator=torch.Generator().manual_seed(0))
    _, left_out = Rocket.fit(x, torch.arange(60) % 3)
    assert left_out.sub(left_out.mean(dim=2, keepdim=True)).abs().mean() < 0.5


def test_the_sequential_test_on_it_beats_a_fixed_time():
    x, labels = wavy(200, 60, seed=3)
    x[:100, :, 0] *= 1.5  # some series are easier than others
    new_x, new_labels = wavy(600, 60, seed=4)
    new_x[:300, :, 0] *= 1.5
    model, left_out = Rocket.fit(x, labels)
    costs = {}
    for rule in (MSPRT, FixedTime):
        at = rule.at(threshold_of_least_cost(sat_curve(left_out, labels, rule=rule), cost_of_waiting=1 / 60))
        decisions = at.decide(model.scores(new_x))
        costs[rule] = (decisions.labels != new_labels.numpy()).mean() + decisions.times.mean() / 60
    assert costs[MSPRT] < costs[FixedTime]


def test_behind_the_last_checkpoint_series_are_read_on_at_the_last_distance():
    x, labels = wavy(20, 10)
    model = Rocket.fit(x, labels, evaluation_times=[2, 5, 8]).model
    scores = model.scores(wavy(20, 19, seed=1)[0])
    changed = 2 + (scores[:, 1:] != scores[:, :-1]).any(dim=2).any(dim=0).nonzero()[:, 0]
    assert changed.tolist() == [2, 5, 8, 11, 14, 17]


def test_what_a_longer_series_brings_changes_nothing_before():
    x, labels = wavy(20, 10)
    model = Rocket.fit(x, labels, evaluation_times=[2, 5, 9]).model
    longer = torch.cat([x, torch.full((20, 5, 2), 7.0)], dim=1)
    assert torch.equal(
        model.scores(longer)[:, :12], torch.cat([model.scores(x), model.scores(x)[:, -1:].repeat(1, 2, 1)], 1)
    )


@pytest.mark.parametrize("times", [[3], [2, 3, 7], 50])
def test_live_equals_batch_far_behind_the_last_checkpoint_at_any_age(times):
    x, labels = wavy(24, 8, channels=3)
    labels[::3] = 2
    # The last checkpoint has no series of class 1.
    model = Rocket.fit(x, labels, torch.where(labels == 1, 4, 8), evaluation_times=times, thresholds=1).model
    longer = wavy(3, 40, seed=1, channels=3)[0]
    batch, state = model.scores(longer), model.init(3)
    for t in range(20):
        state, now, _ = model.step(state, longer[:, t])
        torch.testing.assert_close(now, batch[:, t])
    state = tuple(torch.cat([old, new[:1]]) for old, new in zip(state, model.init(1), strict=True))  # one comes later
    for t in range(20, 40):
        state, now, _ = model.step(state, torch.cat([longer[:, t], longer[:1, t - 20]]))
        torch.testing.assert_close(now, torch.cat([batch[:, t], batch[:1, t - 20]]))


def test_evidence_that_comes_after_the_length_of_training_is_decided_upon():
    random, labels = torch.Generator().manual_seed(0), torch.arange(60) % 2

    def noisy(labels, onsets, time):
        """Noise, and from an onset on the level of the class."""
        started = torch.arange(time) >= onsets[:, None]
        noise = 0.3 * torch.randn(len(labels), time, 1, generator=random)
        return noise + (started * (2.0 * labels - 1)[:, None])[..., None]

    model = Rocket.fit(noisy(labels, torch.arange(60) % 13, 12), labels, evaluation_times=[4, 8, 12]).model
    late, rule = noisy(labels[:10], torch.full((10,), 12), 40), MSPRT(3.5)
    assert not rule.decide(model.scores(late[:, :12])).crossed.any()
    decisions = rule.decide(model.scores(late))
    assert decisions.crossed.all()
    assert (decisions.labels == labels[:10].numpy()).all()
    stream = Stream(model, rule, classes=[0, 1])
    live = next(found for x in late[0] if (found := stream.update(x)) is not None)
    assert (live.label, live.time) == (decisions.labels[0], decisions.times[0])


def test_a_live_state_has_the_form_that_snapshots_hold():
    x, labels = wavy(20, 40)
    state = Rocket.fit(x, labels, thresholds=1).model.init(2)
    assert [(tuple(part.shape), str(part.dtype).removeprefix("torch.")) for part in state] == [
        ((2, 64, 2), "float32"),
        ((2, 336), "int32"),
        ((2, 3, 2), "float64"),
        ((2, 2), "float32"),
        ((2, 2), "float32"),
        ((2,), "int64"),
        ((2, 2), "float32"),
    ]


def test_the_state_of_a_live_series_does_not_grow():
    x, labels = wavy(20, 10)
    model = Rocket.fit(x, labels).model
    state = model.init(1)
    size = sum(part.numel() * part.element_size() for part in state)
    for _ in range(50):
        state = model.step(state, torch.zeros(1, 2)).state
    assert sum(part.numel() * part.element_size() for part in state) == size == model.bytes_per_stream()


def test_all_that_was_fitted_is_in_the_state_dict():
    x, labels = wavy(20, 40)
    model = Rocket.fit(x, labels).model
    copy = Rocket((2,), 2, evaluation_times=model.evaluation_times, dilations=model.running.dilations)
    copy.load_state_dict(model.state_dict())
    assert torch.equal(copy.eval().scores(x), model.scores(x))


def test_the_only_series_of_a_class_is_no_obstacle():
    x, labels = wavy(9, 10)
    labels[8] = 2
    model, left_out = Rocket.fit(x, labels)
    assert left_out.isfinite().all()
    assert model.scores(x).isfinite().all()
    assert model.scores(x).shape == (9, 10, 3)


def test_linear_fits_of_two_series_are_finite():
    linear = fit_linear(
        np.array([[0.0], [1.0]]), np.array([0, 1]), classes=2, blocks=(1,), weights=np.ones(2), groups=np.arange(2)
    )
    assert np.isfinite(linear.left_out).all()
    assert np.isfinite(linear.weights).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evaluation_times": [99]}, r"`evaluation_times` must be in 1..10, got 99"),
        ({"weights": [1.0]}, r"`weights` must be of shape \(20,\), got shape \(1,\)"),
        ({"weights": [-1.0] * 20}, r"`weights` must be at least 0 everywhere, got an entry of -1.0"),
        ({"weights": [0.0] * 20}, r"`weights` must be finite, not all of them zero, got a weight of zero for all"),
        ({"groups": [0] * 19}, r"`groups` must be of shape \(20,\), got shape \(19,\)"),
        ({"classes": 1}, r"`classes` must be at least 2, got 1"),
    ],
)
def test_bad_input_is_answered_by_a_sentence(change, message):
    x, labels = wavy(20, 10)
    with pytest.raises(InvalidArgument, match=message):
        Rocket.fit(x, labels, **change)


def test_one_class_alone_is_refused():
    x, _ = wavy(20, 10)
    with pytest.raises(InvalidArgument, match="times that series of two classes reach"):
        Rocket.fit(x, torch.zeros(20, dtype=torch.int64), classes=2)
