"""The page in a real browser: every number it shows is the one that Python gives at that threshold."""

import math
import re

import numpy as np
import pytest
import torch

from report.reading import assert_exact, decide, enter, last_position, read, slide, threshold_of
from sooner.data.synthetic import Gaussian
from sooner.evaluate import (
    greatest_threshold_for_time,
    least_threshold_for_error,
    sat_curve,
)
from sooner.report import Evaluation, findings, report_page
from sooner.rules import MSPRT, FixedTime, LogOdds, ProbabilityThreshold

NASTY = [
    "<script>document.pwned = 1</script>",
    "\"'&amp;",
    "</script><b>bold</b>",
    "naïve 猫 🐈",
    "@@contents@@ $x^2$ \u2028",
]


def _large():
    process = Gaussian.equidistant(5, 1.0)
    observations, labels = process.sample(10_000, 30, seed=0, prior=[3, 1, 1, 1, 2])
    scores = process.scores(observations).float()
    lengths = torch.randint(8, 31, (10_000,), generator=torch.Generator().manual_seed(1))
    return Evaluation(
        scores,
        labels,
        3.0,
        lengths=lengths,
        classes=NASTY,
        baselines={NASTY[0]: sat_curve(scores, labels, lengths=lengths, rule=FixedTime)},
        points={NASTY[2]: (9.0, 0.2)},
        title=NASTY[2],
        about={NASTY[0]: NASTY[1], "seed": 0},
    )


def _small(rule, threshold, *, classes, coarse, groups=None):
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(40, 9, classes, generator=generator, dtype=torch.float64).cumsum(dim=1)
    labels = torch.randint(
        classes - (classes > 2), (40,), generator=generator
    )  # of three or more, the last class is absent
    lengths = torch.randint(1, 10, (40,), generator=generator)
    owners = None if groups is None else np.arange(40) % groups
    scores = scores.round() if coarse else scores
    return Evaluation(scores, labels, threshold, lengths=lengths, rule=rule, groups=owners)


SMALL = {
    "two classes with ties": (MSPRT, 1.0, 2, True),
    "log-odds": (LogOdds, -0.5, 4, False),
    "probability": (ProbabilityThreshold, 0.9, 3, False),
    "fixed time": (FixedTime, 3, 3, False),
    "in groups": (MSPRT, 1.5, 3, False, 7),
}


@pytest.fixture(scope="module")
def put(tmp_path_factory):
    """Writes the page of an evaluation, and says where."""

    def written(evaluation):
        path = tmp_path_factory.mktemp("page") / "report.html"
        path.write_text(report_page(evaluation), encoding="utf-8")
        return path

    return written


@pytest.fixture(scope="module", params=SMALL)
def small(request, show, put):
    rule, threshold, classes, coarse, *groups = SMALL[request.param]
    evaluation = _small(rule, threshold, classes=classes, coarse=coarse, groups=next(iter(groups), None))
    return show(put(evaluation)), evaluation


@pytest.fixture(scope="module")
def large(show, put):
    evaluation = _large()
    return show(put(evaluation)), evaluation


def test_the_page_opens_at_the_current_threshold(large):
    page, evaluation = large
    assert assert_exact(page, evaluation, decide(evaluation, 3.0)) == 3.0
    headline = page.get_by_test_id("headline").inner_text()
    assert "At a threshold of 3, " in headline
    assert page.get_by_test_id("balanced-error").inner_text() in headline
    assert (
        page.get_by_test_id("lede")
        .inner_text()
        .startswith("10,000 series of 5 classes, 8 to 30 observations each. MSPRT")
    )


def test_every_position_of_the_slider_shows_what_python_gives_there(large):
    page, evaluation = large
    last = last_position(page)
    assert 500 < last < 2000
    for place in (0, 1, last // 3, last // 2, last - 1, last):
        slide(page, place)
        threshold = threshold_of(page)
        assert threshold in evaluation.curve.thresholds
        assert_exact(page, evaluation, decide(evaluation, threshold))
    assert threshold == math.inf


def test_every_position_shows_what_the_curve_has_for_small_sets_and_other_rules(small):
    """A curve has the threshold on a value of the statistic, where an exponential may be rounded otherwise in `decide`."""
    page, evaluation = small
    curve = evaluation.curve
    assert last_position(page) == len(curve) - 1
    for j in range(0, len(curve), 1 + len(curve) // 12):
        slide(page, j)
        shown = read(page, evaluation)
        assert shown["threshold"] == curve.thresholds[j]
        error, _, _, time, forced, plain = shown["values"]
        assert (error, time, plain) == (curve.errors[j], curve.mean_times[j], curve.error_rates[j])
        assert forced == pytest.approx(curve.forced[j], abs=1e-15)


def test_typed_thresholds_show_what_python_gives_for_small_sets_and_other_rules(small):
    page, evaluation = small
    finite = evaluation.curve.thresholds[:-1]
    # On the values themselves where they are exact, ties among them; between them where an exponential is involved.
    tried = finite if evaluation.rule in (MSPRT, FixedTime) else (finite[:-1] + finite[1:]) / 2
    for threshold in [*tried[:: 1 + len(tried) // 8].tolist(), math.inf]:
        enter(page, repr(threshold))
        assert assert_exact(page, evaluation, decide(evaluation, threshold)) == threshold
    assert page.noise == []


def test_typed_thresholds_are_exact_to_the_last_bit(large):
    page, evaluation = large
    value = float(evaluation.curve.thresholds[len(evaluation.curve) // 2])
    before, after = math.nextafter(value, 0.0), math.nextafter(value, 99.0)
    seen = set()
    for threshold in (before, value, after):
        enter(page, repr(threshold))
        assert assert_exact(page, evaluation, decide(evaluation, threshold)) == threshold
        seen.add(read(page, evaluation)["values"])
    assert len(seen) == 2  # up to the value, and beyond it


@pytest.mark.parametrize("text", ["inf", "∞", "Infinity"])
def test_infinity_can_be_typed_and_waits_for_every_end(large, text):
    page, evaluation = large
    enter(page, text)
    assert assert_exact(page, evaluation, decide(evaluation, math.inf)) == math.inf
    assert page.get_by_test_id("forced").inner_text() == "100.0\u00a0%"


@pytest.mark.parametrize("text", ["-1", "three", "", "1e", "nan"])
def test_what_python_refuses_the_page_refuses_too_and_stays(large, text):
    page, _ = large
    enter(page, "2.5")
    enter(page, text)
    message = page.get_by_test_id("message")
    assert message.inner_text() == f"The threshold must be a number of at least 0, or inf; got {text}."
    assert threshold_of(page) == 2.5
    enter(page, "3")
    assert message.inner_text() == ""


def test_each_family_of_rules_has_thresholds_of_its_own(small):
    page, evaluation = small
    for threshold in (-1.0, 0.5, 1.5):
        enter(page, repr(threshold))
        try:
            evaluation.rule.at(threshold)
        except ValueError:
            assert page.get_by_test_id("message").inner_text().startswith("The threshold must be a")
        else:
            assert page.get_by_test_id("message").inner_text() == ""


def test_keys_move_the_slider_and_buttons_step_through_the_exact_curve(large):
    page, evaluation = large
    thresholds = evaluation.curve.thresholds
    slider = page.get_by_test_id("slider")
    slider.focus()
    slider.press("Home")
    assert threshold_of(page) == thresholds[0]
    slider.press("ArrowRight")
    assert threshold_of(page) > thresholds[0]
    slider.press("End")
    assert threshold_of(page) == math.inf
    middle = len(thresholds) // 2
    enter(page, repr(float(thresholds[middle])))
    page.get_by_test_id("next").click()
    assert threshold_of(page) == thresholds[middle + 1]
    for _ in range(2):
        page.get_by_test_id("previous").click()
    assert threshold_of(page) == thresholds[middle - 1]
    page.get_by_test_id("wait").click()
    assert threshold_of(page) == math.inf
    page.get_by_test_id("next").click()
    assert threshold_of(page) == math.inf
    page.get_by_test_id("reset").click()
    assert threshold_of(page) == 3.0


def test_the_curve_of_the_page_is_the_exact_one(large):
    page, evaluation = large
    own = page.evaluate("Object.values(numbers.curve).map((values) => values.map(showNumber).join(' '))")
    curve = evaluation.curve
    for text, exact in zip(own, (curve.thresholds, curve.mean_times, curve.errors), strict=True):
        np.testing.assert_array_equal(np.array(text.split(), dtype=np.float64), exact)


@pytest.mark.parametrize("percent", ["20", "12.9", "7.1", "1e1", "100"])
def test_an_error_target_finds_the_least_threshold_that_python_finds(large, percent):
    page, evaluation = large
    page.get_by_test_id("max-error").fill(percent)
    page.get_by_test_id("set-max-error").click()
    limit = float(percent) / 100 if "e" in percent else float(f"{percent}e-2")
    assert threshold_of(page) == least_threshold_for_error(evaluation.curve, limit)


@pytest.mark.parametrize("time", ["2", "7.25", "12", "1000"])
def test_a_time_target_finds_the_greatest_threshold_that_python_finds(large, time):
    page, evaluation = large
    page.get_by_test_id("max-time").fill(time)
    page.get_by_test_id("max-time").press("Enter")
    assert threshold_of(page) == greatest_threshold_for_time(evaluation.curve, float(time))


def test_targets_out_of_reach_get_a_sentence(large):
    page, evaluation = large
    enter(page, "3")
    page.get_by_test_id("max-error").fill("0")
    page.get_by_test_id("set-max-error").click()
    least = f"{100 * evaluation.curve.errors.min():.2f}\u00a0%"
    message = page.get_by_test_id("message")
    assert message.inner_text() == f"No threshold has an error that small on these data: the smallest is {least}."
    page.get_by_test_id("max-time").fill("0.5")
    page.get_by_test_id("set-max-time").click()
    assert message.inner_text() == "No threshold has a mean time that small: the smallest is 1.00."
    assert threshold_of(page) == 3.0


def test_a_step_of_the_slider_takes_less_than_thirty_milliseconds(large):
    page, _ = large
    took = page.evaluate("""() => Array.from({ length: 21 }, (_, i) => {
        const begin = performance.now();
        go(numbers.drawn.thresholds[20 * i]);
        return performance.now() - begin;
    }).sort((one, other) => one - other)[10]""")
    assert took < 30


def test_the_point_lies_on_the_curve_on_every_kind_of_axis(large):
    page, evaluation = large
    for error, time in ((True, False), (True, True), (False, True), (False, False)):
        page.get_by_test_id("log-error").set_checked(error)
        page.get_by_test_id("log-time").set_checked(time)
        for place in (0, 400, last_position(page)):
            slide(page, place)
            shown = read(page, evaluation)["values"]
            mark = page.get_by_test_id("curve-point").bounding_box()
            plot = page.locator("#curve .nsewdrag").bounding_box()
            axes = page.evaluate("['xaxis', 'yaxis'].map((a) => document.getElementById('curve')._fullLayout[a].range)")
            places = [np.log10(shown[3]) if time else shown[3], np.log10(100 * shown[0]) if error else 100 * shown[0]]
            x, y = ((value - low) / (high - low) for value, (low, high) in zip(places, axes, strict=True))
            assert mark["x"] + mark["width"] / 2 == pytest.approx(plot["x"] + x * plot["width"], abs=1.5)
            assert mark["y"] + mark["height"] / 2 == pytest.approx(plot["y"] + (1 - y) * plot["height"], abs=1.5)
    page.get_by_test_id("log-error").set_checked(True)


def test_what_is_drawn_is_the_curve_with_its_band(large):
    page, evaluation = large
    page.get_by_test_id("log-error").set_checked(False)
    low, high, baseline, main, points = page.evaluate(
        "document.getElementById('curve').data.map((t) => ({ x: Array.from(t.x), y: Array.from(t.y), name: t.name }))"
    )
    exact = dict(zip(evaluation.curve.mean_times, evaluation.curve.errors, strict=True))
    drawn = np.array([exact[x] for x in main["x"][1:-1]])
    assert set(np.round(np.array(main["y"][1:-1]), 9)) >= set(np.round(100 * drawn, 9))
    assert (np.array(low["y"]) <= np.array(main["y"])).all()
    assert (np.array(high["y"]) >= np.array(main["y"])).all()
    fixed = evaluation.baselines[NASTY[0]]
    np.testing.assert_array_equal(baseline["x"], fixed.mean_times)
    np.testing.assert_allclose(baseline["y"], 100 * fixed.errors)
    assert (points["x"], points["y"]) == ([9.0], [20.0])
    page.get_by_test_id("log-error").set_checked(True)


def test_a_click_on_the_curve_goes_there(large):
    page, evaluation = large
    slide(page, 700)
    there = read(page, evaluation)["values"][3]  # which waits for the drawings: only then the point is where it stays
    target = page.get_by_test_id("curve-point").bounding_box()
    page.get_by_test_id("reset").click()
    page.mouse.move(target["x"] + 6, target["y"] + 8)
    page.mouse.move(target["x"] + 8, target["y"] + 8)
    page.wait_for_timeout(100)
    page.mouse.click(target["x"] + 8, target["y"] + 8)
    assert read(page, evaluation)["values"][3] == pytest.approx(there, abs=0.2)


def _verdicts(page):
    return page.evaluate("""() => Array.from(document.querySelectorAll("#series option"), () => {
        document.getElementById("series-next").click();
        const verdict = document.querySelector("[data-testid=verdict]");
        return { series: Number(/Series (\\d+)/.exec(verdict.textContent)[1]), ...verdict.dataset };
    })""")


def test_every_chosen_series_is_decided_as_python_decides_it(small):
    page, evaluation = small
    threshold = {FixedTime: 4, ProbabilityThreshold: 0.77}.get(evaluation.rule, 1.1)
    enter(page, str(threshold))
    decisions, verdicts = decide(evaluation, threshold), _verdicts(page)
    assert len({verdict["series"] for verdict in verdicts}) == 24
    for verdict in verdicts:
        series = verdict["series"]
        assert int(verdict["label"]) == decisions.labels[series]
        assert int(verdict["time"]) == decisions.times[series]
        assert verdict["crossed"] == str(bool(decisions.crossed[series])).lower()


def test_trajectories_are_the_leads_of_each_class_with_the_threshold_across(large):
    page, evaluation = large
    enter(page, "2")
    page.get_by_test_id("series").select_option(index=8)
    series = int(re.match(r"Series (\d+)", page.get_by_test_id("verdict").inner_text())[1])
    length, truth = int(evaluation.lengths[series]), int(evaluation.labels[series])
    scores = evaluation.scores[series, :length].double().numpy()
    lines = page.evaluate(
        "document.getElementById('trajectory').data.map((t) => ({ x: Array.from(t.x), y: Array.from(t.y) }))"
    )
    assert len(lines) == 5
    expected = [scores[:, k] - np.delete(scores, k, axis=1).max(axis=1) for k in range(5)]
    np.testing.assert_array_equal(lines[-1]["x"], np.arange(1, length + 1))
    np.testing.assert_allclose(lines[-1]["y"], expected[truth], atol=1e-4)
    for line in lines[:-1]:
        assert min(np.abs(line["y"] - other).max() for k, other in enumerate(expected) if k != truth) < 1e-4
    decisions = decide(evaluation, 2.0)
    ring = page.get_by_test_id("trajectory-ring")
    assert float(ring.get_attribute("data-x")) == decisions.times[series]
    height = expected[decisions.labels[series]][decisions.times[series] - 1]
    assert float(ring.get_attribute("data-y")) == pytest.approx(height, abs=1e-4)
    level = page.get_by_test_id("trajectory-level").bounding_box()
    assert ring.bounding_box()["y"] + 7.5 <= level["y"] + 1.5  # it crossed
    page.get_by_test_id("wait").click()
    page.get_by_test_id("trajectory-level").wait_for(state="hidden")


def test_names_are_shown_as_they_are_and_never_run(large):
    page, _ = large
    assert page.evaluate("document.pwned") is None
    assert page.title() == NASTY[2]
    assert page.get_by_test_id("title").inner_text() == NASTY[2]
    named = page.locator("#classes tbody th").all_inner_texts()
    assert [name.split() for name in named] == [name.split() for name in NASTY]
    assert page.locator("#confusion thead th").first.get_attribute("title") == NASTY[0]
    assert page.locator("main b", has_text="bold").count() == 0
    assert page.locator("#curve .legendtext").all_text_contents() == ["MSPRT", "<script>document.pwned = 1<…"]
    assert "</script><b>bold</b>" in page.locator("#curve .textpoint").all_text_contents()
    about = page.get_by_test_id("about").inner_text()
    assert NASTY[0] in about
    assert NASTY[1] in about


def test_nothing_sticks_out_on_a_phone(large):
    page, _ = large
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_test_id("wait").click()
    page.get_by_test_id("max-error").fill("0")
    page.get_by_test_id("set-max-error").click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("Array.from(document.querySelectorAll('.box, .plot')).every((box) => box.clientWidth <= 366)")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_every_control_has_a_name(large):
    page, _ = large
    nameless = page.evaluate("""() => Array.from(document.querySelectorAll("input, select, button, [role=img], [role=region]"))
        .filter((e) => !(e.labels?.length || e.ariaLabel || e.getAttribute("aria-labelledby") || e.textContent.trim()))
        .map((e) => e.outerHTML)""")
    assert nameless == []


def _luminance(colour):
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def test_texts_stand_out_by_day_and_by_night(large):
    page, _ = large
    papers = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colours = {name: page.evaluate("colour", name) for name in ("paper", "card", "ink", "soft", "accent", "warn")}
        for back in ("paper", "card"):
            for front in ("ink", "soft", "accent", "warn"):
                bright, dim = sorted((_luminance(colours[back]), _luminance(colours[front])), reverse=True)
                assert (bright + 0.05) / (dim + 0.05) >= 4.5, (scheme, back, front)
        papers.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.wait_for_timeout(100)
        font = page.evaluate("document.getElementById('curve').layout.font.color")
        assert font == colours["soft"]  # the drawings follow
    assert papers[0] != papers[1]
    page.emulate_media(color_scheme="light")


def test_with_too_many_records_the_page_holds_counts_and_they_are_exact(show, put, monkeypatch):
    monkeypatch.setattr(findings, "MOST_STATES", 100)
    monkeypatch.setattr(findings, "DRAWN", 40)
    evaluation = _small(MSPRT, 1.25, classes=4, coarse=False)
    page = show(put(evaluation))
    last = last_position(page)
    assert last < len(evaluation.curve) - 10
    for place in (0, 1, last // 2, last):
        slide(page, place)
        assert_exact(page, evaluation, decide(evaluation, threshold_of(page)))
    page.get_by_test_id("reset").click()
    assert_exact(page, evaluation, decide(evaluation, 1.25))
    enter(page, "0.77")
    settled = threshold_of(page)
    assert settled >= 0.77
    assert_exact(page, evaluation, decide(evaluation, settled))
    assert "exact points of the curve" in page.locator("#curve-title").locator("xpath=ancestor::section").inner_text()
    assert page.noise == []


def test_many_classes_are_drawn_as_a_picture(show, put):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(300, 6, 25, generator=generator).cumsum(dim=1)
    labels = torch.randint(25, (300,), generator=generator)
    page = show(put(Evaluation(scores, labels, 1.0)), width=390)
    for threshold in (1.0, 0.25):
        enter(page, str(threshold))
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        decisions = MSPRT(threshold).decide(scores)
        counts = np.zeros((25, 25), dtype=int)
        np.add.at(counts, (labels.numpy(), decisions.labels), 1)
        np.testing.assert_array_equal(page.evaluate("document.getElementById('confusion').data[0].text"), counts)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.noise == []


def test_one_series_of_one_observation_has_a_page(show, put):
    evaluation = Evaluation([[[0.0, 1.0]]], [1], math.inf)
    page = show(put(evaluation))
    assert_exact(page, evaluation, decide(evaluation, math.inf))
    slide(page, 0)
    assert_exact(page, evaluation, decide(evaluation, 1.0))
    assert page.noise == []
    # That silence means something: whatever asks for the network is heard, and the page's own policy stops it as well.
    page.evaluate("() => { new Image().src = 'https://example.org/x.png'; }")
    page.wait_for_timeout(100)
    assert any("example.org" in noise and "Content Security Policy" in noise for noise in page.noise)


def test_the_page_asked_for_nothing_and_complained_of_nothing(large):
    """Last in the file, after everything that the tests did to it."""
    assert large[0].noise == []


def test_a_promise_stands_beside_the_threshold_that_was_certified_and_beside_no_other(show, put):
    promise = "promised: error at most 5% with 95% confidence, certified on 300 <b>series</b>, 2026-11-18"
    plain = _small(MSPRT, 1.0, classes=2, coarse=False)
    certified = Evaluation(plain.scores, plain.labels, 1.0, lengths=plain.lengths, promise=promise)
    page = show(put(certified))
    shown = page.get_by_test_id("promise")
    assert shown.inner_text() == promise
    for place in range(last_position(page) + 1):
        slide(page, place)
        assert shown.inner_text() == ""
    enter(page, "1.0")
    assert shown.inner_text() == promise
    enter(page, "1.0000001")
    assert shown.inner_text() == ""
    assert show(put(plain)).get_by_test_id("promise").inner_text() == ""
