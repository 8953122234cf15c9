"""What a report is made of, and what is picked out to be drawn."""

import math

import numpy as np
import pytest
import torch

from sooner.data.synthetic import Gaussian
from sooner.errors import InvalidArgument
from sooner.evaluate import balanced_error, sat_curve
from sooner.report import Evaluation, findings, report_page, speed_accuracy, write_report
from sooner.report.findings import Findings, to_draw
from sooner.report.trajectories import CATEGORIES, choose, leads
from sooner.rules import MSPRT, FixedTime, Patience
from sooner.types import Decisions

SCORES = torch.tensor([[[0.0, 1.0], [3.0, 0.0]], [[0.0, 2.0], [0.0, 4.0]]])


def _gaussian(series=1500, **more):
    process = Gaussian.equidistant(3, 0.8)
    observations, labels = process.sample(series, 40, seed=0)
    return Evaluation(process.scores(observations), labels, 3.0, **more)


def test_a_drawn_curve_strays_from_the_exact_one_by_no_more_than_a_step():
    curve = _gaussian(20_000).curve
    assert len(curve) > 100_000
    places = to_draw(curve, count=1000, keep=[12_345])
    assert {0, 12_345, len(curve) - 1} <= set(places.tolist())
    assert 300 < len(places) < 1010
    for axis in (curve.mean_times, curve.errors, curve.forced):
        drawn = np.interp(np.arange(len(curve)), places, axis[places])
        assert np.abs(drawn - axis).max() < 0.02 * np.ptp(axis)


def test_a_short_curve_is_drawn_as_it_is_and_a_flat_one_has_its_ends():
    curve = sat_curve(SCORES, [0, 1])
    np.testing.assert_array_equal(to_draw(curve), np.arange(5))
    flat = sat_curve(torch.arange(50.0)[:, None, None] * torch.tensor([1.0, 0.0]), [0] * 50)
    assert set(to_draw(flat, count=10).tolist()) >= {0, 50}


def test_the_band_is_that_of_the_decisions_at_each_drawn_point():
    evaluation = _gaussian(200)
    found = Findings.of(evaluation)
    for j in range(0, len(found.drawn), 97):
        threshold = float(evaluation.curve.thresholds[found.drawn[j]])
        error = balanced_error(MSPRT(threshold).decide(evaluation.scores), evaluation.labels)
        assert found.band.low[j] <= error <= found.band.high[j]
        assert error == evaluation.curve.errors[found.drawn[j]]
    assert found.errors.balanced == balanced_error(MSPRT(3.0).decide(evaluation.scores), evaluation.labels)


def test_long_series_share_the_bars_of_the_histogram():
    scores = torch.zeros(2, 1001, 2)
    found = Findings.of(Evaluation(scores, [0, 1], math.inf))
    assert (found.width, found.bins) == (11, 91)
    assert found.width * found.bins >= 1001


def test_leads_are_the_least_ratios_to_the_others():
    scores = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)).round()  # ties among them
    expected = [[min(row[k] - row[m] for m in range(4) if m != k) for k in range(4)] for row in scores.tolist()]
    np.testing.assert_array_equal(leads(scores), expected)


def test_chosen_series_are_what_their_kind_says():
    found = Findings.of(_gaussian())
    decisions, truths = found.decisions, found.records.truths
    assert len({series for _, series in found.chosen}) == 24
    right = decisions.labels == truths
    groups = [[series for name, series in found.chosen if name == kind] for kind in CATEGORIES[:4]]
    for group, good in zip(groups[:3], (True, True, False), strict=True):
        assert len(group) == 6
        assert (right[group] == good).all()
        assert decisions.crossed[group].all()
    times = np.sort(decisions.times[right & decisions.crossed])
    np.testing.assert_array_equal(np.sort(decisions.times[groups[0]]), times[:6])
    np.testing.assert_array_equal(np.sort(decisions.times[groups[1]]), times[-6:])
    assert not decisions.crossed[groups[3]].any()


def test_where_a_kind_is_missing_others_are_chosen():
    decisions = Decisions(np.zeros(30, dtype=int), np.ones(30, dtype=int), np.ones(30, dtype=bool))
    chosen = choose(decisions, np.zeros(30, dtype=int))
    assert len(chosen) == 24
    assert len({series for _, series in chosen}) == 24
    assert {kind for kind, _ in chosen} == {CATEGORIES[0], CATEGORIES[1], CATEGORIES[4]}


def test_a_report_is_a_page_and_four_figures(tmp_path):
    fixed = sat_curve(SCORES, [0, 1], rule=FixedTime)
    evaluation = Evaluation(
        SCORES, [0, 1], 2.0, classes=["a $b$ c", "d\ne"], baselines={"fixed $t$": fixed}, points={"peer": (1.5, 0.25)}
    )
    report = write_report(tmp_path / "new" / "folder", evaluation)
    assert report.page.name == "report.html"
    names = ["speed_accuracy", "trajectories", "confusion", "decision_times"]
    assert [figure.stem for figure in report.figures] == names
    assert all(figure.read_bytes()[:4] == b"\x89PNG" for figure in report.figures)
    assert report.page.read_text(encoding="utf-8") == report_page(evaluation)


def test_figures_are_drawn_for_other_rules_many_classes_and_no_errors(tmp_path):
    scores = torch.eye(25)[:, None].expand(25, 3, 25) * 9
    report = write_report(tmp_path, Evaluation(scores, range(25), 1.0, rule=FixedTime))
    assert all(figure.stat().st_size > 5000 for figure in report.figures)


def test_speed_accuracy_draws_a_figure_of_its_own(tmp_path):
    curve = sat_curve(SCORES, [0, 1])
    speed_accuracy({"curve": curve}, tmp_path / "a" / "figure.png", title="A title", points={"here": (1.5, 0.1)})
    assert (tmp_path / "a" / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_a_page_of_two_thousand_series_stays_below_six_megabytes():
    page = report_page(_gaussian(2000))
    assert 4.5e6 < len(page.encode()) < 6e6


def test_a_page_holds_no_address_that_a_browser_would_ask_for():
    page = report_page(Evaluation(SCORES, [0, 1], 2.0))
    markup = page.split("<script", 1)[0]
    assert "http://" not in markup
    assert "https://" not in markup
    assert "@import" not in markup
    assert "url(" not in markup


def test_absent_classes_are_named():
    page = report_page(Evaluation(SCORES.repeat(1, 1, 2), [0, 1], 2.0, classes=["a", "b", "<c>", "d"]))
    assert "Classes without series, which are in no mean: &lt;c&gt;, d." in page


def test_settings_and_versions_are_in_the_table():
    page = report_page(Evaluation(SCORES, [0, 1], 2.0, about={"learning rate": 0.01, "sooner": "mine"}))
    assert '<th scope="row">learning rate</th><td>0.01</td>' in page
    assert '<th scope="row">sooner</th><td>mine</td>' in page
    assert '<th scope="row">threshold</th><td>2.0</td>' in page


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rule": Patience}, "`rule` must be a class of threshold rules"),
        ({"threshold": -1.0}, r"`threshold` must be at least 0, got -1\.0"),
        (
            {"threshold": np.eye(2, dtype=int)},
            r"`threshold` must be a number, got array[^.]*\. A matrix of thresholds is not a point of the curve",
        ),
        ({"threshold": 1.5, "rule": FixedTime}, r"`time` must be a whole number, got 1\.5"),
        ({"classes": ["a"]}, r"`classes` must be 2 names, as the scores have classes, got 1\."),
        ({"baselines": {"lstm": (1.0, 0.5)}}, r"`baselines` must be curves by name, got a tuple as 'lstm'\."),
        ({"points": {"peer": 3.0}}, r"`points` must be pairs \(mean time, error\) by name, got 3\.0 as 'peer'\."),
        ({"points": {"peer": (3.0, 12.0)}}, r"`points\['peer'\]` must be in 0\.\.1, got 12\.0\."),
        ({"labels": [0, 2]}, r"`labels` must be in 0\.\.1, got 2 at index 1"),
        ({"lengths": [0, 2]}, r"`lengths` must be in 1\.\.2, got 0 at index 0"),
    ],
)
def test_what_cannot_be_reported_is_refused(change, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        Evaluation(**({"scores": SCORES, "labels": [0, 1], "threshold": 2.0} | change))


def test_an_evaluation_takes_tensors_that_learn():
    evaluation = Evaluation(SCORES.clone().requires_grad_(), [0, 1], 2.0)
    assert not evaluation.scores.requires_grad
    assert evaluation.classes == ("0", "1")


def test_beyond_the_most_records_the_page_says_so(monkeypatch):
    assert "Because there are many series" not in report_page(_gaussian(50))
    monkeypatch.setattr(findings, "MOST_STATES", 100)
    assert "Because there are many series" in report_page(_gaussian(50))
