"""Our curves over the published ones: every number drawn is one that was given, and no name does any harm."""

import json
import re

import numpy as np
import pytest
import torch

from sooner.errors import InvalidArgument
from sooner.report.comparison.contents import Comparison, Line, Table, Trajectories
from sooner.report.comparison.page import comparison_page, write_comparison
from sooner.report.page import Report
from sooner.rules import MSPRT

NASTY = [
    "<script>document.pwned = 1</script>",
    "</script><b>bold</b>",
    "@@contents@@ $x^2$ %{x} \"'&amp;",
    "_naïve 猫",
]
TIMES = np.array([2.0, 5.0, 8.0, 10.0, 20.0])
ERRORS = np.array([44.172, 11.994, 3.383, 2.281, 1.916])
SEM = np.array([0.046, 0.046, 0.046, 0.046, 0.046])
SCORES = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(dim=0)


def _published(name="MSPRT-TANDEM", **more):
    return Line(name, "published", TIMES, ERRORS, **({"trials": 300, "sem": SEM} | more))


def _ours(name="MSPRT-TANDEM", **more):
    changed = {"trials": 3, "sem": 9 * SEM, "highlight": "headline"} | more
    return Line(name, "ours", TIMES, 0.9 * ERRORS, **changed)


def _whole():
    """Every kind of thing that a page may hold, under names that try to break it."""
    lines = (
        _published(),
        _ours(),
        Line(NASTY[0], "published", TIMES[1:], ERRORS[1:] + 9, trials=300),
        Line(NASTY[0], "ours", TIMES[1:], ERRORS[1:] + 7, trials=1, sem=np.full(4, np.nan)),
        Line(NASTY[2], "published", [13.41], [3.162], trials=50, sem=[0.027]),
        Line(NASTY[3], "ours", [1.34], [57.973], trials=45),
    )
    return Comparison(
        NASTY[1],
        NASTY[0],
        lines,
        tables=(
            Table(NASTY[1], ("time", NASTY[0]), (("5", "11.994 ± 0.046"), (NASTY[1], "")), note=NASTY[0]),
            Table("p-values", ("", "a", "b"), (("a", "-", "< 1E-09"), ("b", "< 1E-09", "-"))),
        ),
        trajectories=(
            Trajectories(NASTY[1], 1, SCORES, 2.0, classes=tuple(NASTY)),
            Trajectories("out of reach", 0, SCORES, 1e3),
            Trajectories("alone", 2, SCORES[:1]),
        ),
        about={NASTY[0]: NASTY[1], "sooner": "mine"},
        shortened=f"3 trials of 300, {NASTY[1]}",
    )


@pytest.fixture(scope="module")
def put(tmp_path_factory):
    """Writes a comparison, and says where its page is."""
    return lambda comparison: write_comparison(tmp_path_factory.mktemp("comparison"), comparison).page


@pytest.fixture(scope="module")
def whole(show, put):
    comparison = _whole()
    return show(put(comparison)), comparison


def _wait(page, condition):
    """Until it holds. The page's policy forbids what `page.wait_for_function` does."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never: {condition}")


def _drawn(page, element="curves"):
    return page.evaluate(
        """(id) => document.getElementById(id).data.map((t) => ({
            x: Array.from(t.x), y: Array.from(t.y), mode: t.mode, meta: t.meta, visible: t.visible, dash: t.line?.dash,
            width: t.line?.width, colour: t.line?.color, bar: t.error_y?.array ?? null, text: t.text,
        }))""",
        element,
    )


def _lines(page):
    """The drawn lines by what their hover says of them."""
    return {trace["text"][0].split("<br>")[0]: trace for trace in _drawn(page) if trace["meta"] == "line"}


def _assert_hover(page, begin, point, said):
    """What appears beside a point of the line whose text begins so."""
    page.evaluate(
        """([begin, point]) => {
            const curves = document.getElementById("curves");
            const place = curves.data.findIndex((t) => t.text?.[0].startsWith(begin));
            Plotly.Fx.hover(curves, [{ curveNumber: place, pointNumber: point }]);
        }""",
        [begin, point],
    )
    label = page.locator("#curves .hovertext")
    label.filter(has_text=said).wait_for()
    assert label.text_content() == said


def _pixels(path):
    from matplotlib.image import imread

    return imread(path)[..., :3]


def _has(pixels, colour):
    """Whether some pixel is of that colour."""
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return bool((np.abs(pixels - wanted).max(axis=-1) < 0.01).any())


def test_every_line_is_drawn_through_the_points_that_were_given(whole):
    page, comparison = whole
    lines = _lines(page)
    assert len(lines) == len(comparison.lines)
    for given in comparison.lines:
        (drawn,) = (t for t in lines.values() if t["y"] == given.errors.tolist())  # to the last bit
        assert drawn["x"] == given.times.tolist()
        assert drawn["mode"] == ("markers" if len(given.times) == 1 else "lines")
        assert drawn["dash"] == ("solid" if given.origin == "ours" else "dash")


def test_a_point_says_its_model_its_time_and_its_error(whole):
    page, _ = whole
    said = "MSPRT-TANDEM (published, 300 trials)time 5, error 11.994 ± 0.046 %"
    _assert_hover(page, "<b>MSPRT-TANDEM</b> (published", 1, said)
    _assert_hover(page, "<b>&lt;script", 0, f"{NASTY[0]} (published, 300 trials)time 5, error 20.994 %")
    _assert_hover(page, "<b>_na", 0, f"{NASTY[3]} (ours, 45 trials)time 1.34, error 57.973 %")
    _assert_hover(page, "<b>@@contents", 0, f"{NASTY[2]} (published, 50 trials)time 13.41, error 3.162 ± 0.027 %")


def test_the_headline_is_the_thickest_on_top_and_alone_has_a_band(whole):
    page, comparison = whole
    traces = _drawn(page)
    headline = comparison.lines[1]
    widths = [trace["width"] for trace in traces if trace["meta"] == "line"]
    assert widths[-1] == max(widths)
    assert widths.count(max(widths)) == 1
    assert traces[-1]["y"] == headline.errors.tolist()
    (band,) = (trace for trace in traces if trace["meta"] == "band")
    np.testing.assert_array_equal(band["x"], [*TIMES, *TIMES[::-1]])
    sides = [*(headline.errors - headline.sem), *(headline.errors + headline.sem)[::-1]]
    np.testing.assert_allclose(band["y"], sides, rtol=1e-15)
    assert "The band is one standard error" in page.locator("main").inner_text()


def test_a_single_point_has_its_standard_error_as_a_bar(whole):
    page, _ = whole
    bars = {trace["x"][0]: trace["bar"] for trace in _drawn(page) if trace["mode"] == "markers"}
    assert bars[13.41] == pytest.approx([0.027])
    assert bars[1.34] is None


def _parts(colour):
    return tuple(int(part) for part in re.findall(r"\d+", colour)[:3])


def _saturation(colour):
    return max(_parts(colour)) - min(_parts(colour))


def test_the_published_line_of_a_model_is_a_greyer_one_of_the_same_hue_by_day_and_by_night(whole):
    page, _ = whole
    seen = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        _wait(page, "document.getElementById('curves').layout.font.color === colour('soft')")
        colours = {name: trace["colour"] for name, trace in _lines(page).items()}
        ours, theirs = (colours[f"<b>MSPRT-TANDEM</b> ({who})"] for who in ("ours, 3 trials", "published, 300 trials"))
        assert 0.3 * _saturation(ours) < _saturation(theirs) < 0.8 * _saturation(ours)
        assert np.argsort(_parts(ours)).tolist() == np.argsort(_parts(theirs)).tolist()
        keys = page.locator(".keys i").evaluate_all("(all) => all.map((i) => getComputedStyle(i).color)")
        assert sorted(map(_parts, keys)) == sorted(map(_parts, colours.values()))
        assert len(set(keys)) == 6
        seen.append(ours)
    assert seen[0] != seen[1]
    page.emulate_media(color_scheme="light")


def test_a_click_on_a_key_hides_its_line_with_its_band_and_shows_it_again(whole):
    page, _ = whole
    key = page.get_by_role("button", name="MSPRT-TANDEM, ours, 3 trials")
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    hidden = [trace["meta"] for trace in _drawn(page) if not trace["visible"]]
    assert hidden == ["band", "line"]
    key.press("Enter")
    assert key.get_attribute("aria-pressed") == "true"
    assert all(trace["visible"] for trace in _drawn(page))


def test_a_zoom_outlives_a_click_on_a_key(whole):
    page, _ = whole
    ranges = "document.getElementById('curves')._fullLayout.xaxis.range"
    before = page.evaluate(ranges)
    plot = page.locator("#curves .nsewdrag").bounding_box()
    page.mouse.move(plot["x"] + 0.25 * plot["width"], plot["y"] + 100)
    page.mouse.down()
    page.mouse.move(plot["x"] + 0.5 * plot["width"], plot["y"] + 101, steps=5)
    page.mouse.up()
    _wait(page, f"{ranges}[0] > 4")
    zoomed = page.evaluate(ranges)
    for _ in range(2):
        page.get_by_test_id("key-0").click()
        assert page.evaluate(ranges) == zoomed
    page.mouse.dblclick(plot["x"] + 0.5 * plot["width"], plot["y"] + 100)
    _wait(page, f"{ranges}[0] < 1")
    assert page.evaluate(ranges) == before


def test_the_error_axis_is_logarithmic_with_round_numbers_and_can_be_linear(whole):
    page, comparison = whole
    kind = "['xaxis', 'yaxis'].map((a) => document.getElementById('curves')._fullLayout[a].type)"
    assert page.evaluate(kind) == ["linear", "log"]
    assert page.locator("#curves .ytick").all_text_contents() == ["2", "5", "10", "20", "50"]
    page.get_by_test_id("log-error").uncheck()
    page.get_by_test_id("log-time").check()
    assert page.evaluate(kind) == ["log", "linear"]
    drawn = sorted(trace["y"] for trace in _drawn(page) if trace["meta"] == "line")
    assert drawn == sorted(line.errors.tolist() for line in comparison.lines)
    page.get_by_test_id("log-error").check()
    page.get_by_test_id("log-time").uncheck()


def test_tables_hold_the_texts_that_were_given(whole):
    page, comparison = whole
    for place, table in enumerate(comparison.tables):
        shown = (
            page.get_by_test_id(f"table-{place}")
            .locator("tr")
            .evaluate_all("(rows) => rows.map((row) => Array.from(row.cells, (cell) => cell.textContent))")
        )
        assert [tuple(row) for row in shown] == [table.columns, *table.rows]


def test_trajectories_are_the_least_ratios_with_the_threshold_and_the_decision(whole):
    page, _ = whole
    scores = SCORES.numpy()
    expected = [scores[:, k] - np.delete(scores, k, axis=1).max(axis=1) for k in range(4)]
    *lines, ring = _drawn(page, "trajectory-0")
    assert [line["meta"] for line in lines] == [0, 2, 3, 1]  # the true class on top
    for line in lines:
        np.testing.assert_allclose(line["y"], expected[line["meta"]], atol=1e-5)
        np.testing.assert_array_equal(line["x"], np.arange(1, 13))
    assert len({line["colour"] for line in lines[:3]}) == 1
    assert lines[0]["colour"] != lines[3]["colour"]
    decided = MSPRT(2.0).decide(SCORES[None])
    label, time = int(decided.labels[0]), int(decided.times[0])
    assert ring["x"] == [time]
    assert ring["y"] == pytest.approx([expected[label][time - 1]], abs=1e-5)
    levels = "[0, 1, 2].map((i) => document.getElementById(`trajectory-${i}`).layout.shapes.map((s) => s.y0))"
    assert page.evaluate(levels) == [[2], [1000], []]
    assert len(_drawn(page, "trajectory-1")) == len(_drawn(page, "trajectory-2")) == 4  # no ring
    outcomes = [page.get_by_test_id(f"outcome-{place}").inner_text() for place in range(3)]
    assert f"named {NASTY[label]} at t\u00a0=\u00a0{time}." in outcomes[0]
    assert outcomes[1:] == ["True class: 0. The threshold of 1000 is not reached.", "True class: 2."]


def test_the_threshold_is_always_in_sight(whole):
    page, _ = whole
    low, high = page.evaluate("document.getElementById('trajectory-1')._fullLayout.yaxis.range")
    assert low < 0 < 1000 < high


def test_names_are_shown_as_they_are_and_never_run(whole):
    page, comparison = whole
    assert page.evaluate("document.pwned") is None
    assert page.title() == NASTY[1]
    assert page.get_by_test_id("title").inner_text() == NASTY[1]
    assert page.get_by_test_id("lede").inner_text() == NASTY[0]
    assert page.get_by_test_id("shortened").inner_text() == f"Shortened. {comparison.shortened}"
    assert page.locator("b", has_text="bold").count() == 0
    assert page.locator(".keys span").all_inner_texts() == ["MSPRT-TANDEM", NASTY[0], NASTY[2], NASTY[3]]
    assert page.locator("figcaption").all_inner_texts() == [NASTY[1], "out of reach", "alone"]
    about = page.get_by_test_id("about").inner_text().split("\n")
    assert about[:2] == [f"{NASTY[0]}\t{NASTY[1]}", "sooner\tmine"]


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out(whole, width):
    page, _ = whole
    page.set_viewport_size({"width": width, "height": 844})
    _wait(page, f"document.documentElement.scrollWidth === {width}")
    _wait(
        page,
        "Array.from(document.querySelectorAll('.box, .plot, .keys')).every((e) => e.clientWidth <= innerWidth - 24)",
    )
    wide = "document.querySelector('#curves .nsewdrag')?.getBoundingClientRect().width"
    _wait(page, f"{wide} > {0.6 * min(width, 1180)}")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_everything_has_a_name(whole):
    page, _ = whole
    nameless = page.evaluate("""() => Array.from(document.querySelectorAll("input, button, [role=img], [role=region]"))
        .filter((e) => !(e.labels?.length || e.ariaLabel || e.getAttribute("aria-labelledby")))
        .map((e) => e.outerHTML)""")
    assert nameless == []


EDGES = {
    "one line": [_ours()],
    "one point": [Line("EARLIEST", "published", [13.41], [3.162], trials=50, sem=[0.027])],
    "no standard error": [_ours(sem=None), _published(sem=None)],
    "one trial": [_ours(trials=1, sem=np.full(5, np.nan))],
    "no error at all": [Line("perfect", "ours", [1.0, 2.0], [0.0, 0.0], trials=1)],
    "some without error": [
        Line("good", "ours", [1.0, 2.0], [3.0, 0.0], trials=2, sem=[4.0, 0.0], highlight="headline")
    ],
    "ten models": [_published(f"model {k}", trials=k + 1) for k in range(10)],
}


@pytest.mark.parametrize("lines", EDGES.values(), ids=EDGES)
def test_every_kind_of_line_has_a_page_and_a_figure(show, tmp_path, lines):
    report = write_comparison(tmp_path, Comparison("Title", "Lede.", tuple(lines)))
    assert [figure.name for figure in report.figures] == ["curves.png"]
    assert _pixels(report.figures[0]).std() > 0.05
    page = show(report.page)
    drawn = [trace for trace in _drawn(page) if trace["meta"] == "line"]
    assert len(drawn) == len(lines)
    assert all(np.isfinite(trace["y"]).all() and min(trace["y"]) > 0 for trace in _drawn(page))
    assert page.locator("#curves .ytick").count() > 0
    banded = any(line.highlight == "headline" and line.band for line in lines)
    assert [trace["meta"] for trace in _drawn(page)].count("band") == banded
    assert ("The band is" in page.locator("main").inner_text()) == banded
    assert page.noise == []


def test_no_error_at_all_is_drawn_at_the_foot_of_a_logarithmic_axis_and_is_called_so(show, put):
    page = show(put(Comparison("Title", "", tuple(EDGES["some without error"]))))
    band, line = _drawn(page)
    assert line["y"] == [3.0, 1.5]
    assert band["y"] == [1.5, 1.5, 1.5, 7.0]
    assert page.locator("#curves .ytick").first.text_content() == "0"
    page.get_by_test_id("log-error").uncheck()
    assert _drawn(page)[1]["y"] == [3.0, 0.0]


def test_a_comparison_is_a_page_and_two_figures(tmp_path):
    comparison = _whole()
    report = write_comparison(tmp_path / "new" / "folder", comparison)
    folder = tmp_path / "new" / "folder"
    assert report == Report(folder / "comparison.html", (folder / "curves.png", folder / "trajectories.png"))
    assert report.page.read_text(encoding="utf-8") == comparison_page(comparison)
    for figure in report.figures:
        pixels = _pixels(figure)
        assert _has(pixels, "#0072B2")  # the headline, and the true class
        assert 0.02 < (pixels.min(axis=-1) < 0.9).mean() < 0.6


def test_the_figure_shows_more_where_there_is_more(tmp_path):
    def inked(name, *lines):
        folder = tmp_path / name
        return _pixels(write_comparison(folder, Comparison("Title", "", lines)).figures[0])

    assert _has(inked("two", _ours(), _published()), "#4581a5")  # halfway from the hue to grey
    assert not _has(inked("one", _ours()), "#4581a5")
    assert _has(inked("hues", _ours(), _ours("other", highlight="plain")), "#D55E00")


def test_a_page_holds_no_address_that_a_browser_would_ask_for_and_no_number_that_json_lacks():
    page = comparison_page(_whole())
    markup, contents = page.split('<script type="application/json" id="contents">', 1)
    for address in ("http://", "https://", "@import", "url("):
        assert address not in markup
    contents = contents.split("</script>", 1)[0]
    json.loads(contents, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert "<" not in contents
    assert page.count("plotly.js v") == 1
    assert "sha256-" in markup


def test_without_trajectories_tables_or_cuts_the_page_does_without_them():
    markup = comparison_page(Comparison("Title", "Lede.", (_ours(),))).split("<script", 1)[0]
    for what in ("Single series", "table-0", "Shortened"):
        assert what not in markup
        assert what in comparison_page(_whole())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"origin": "theirs"}, "`origin` must be one of 'ours', 'published', got 'theirs'"),
        ({"highlight": "bold"}, "`highlight` must be one of 'headline', 'plain', got 'bold'"),
        ({"times": []}, r"`times` must be of shape \(points,\), one at least, got shape \(0,\)"),
        ({"times": [2.0, 1.0]}, r"`times` must be finite, above 0 and ascending, got \[2\.0, 1\.0\]"),
        ({"times": [0.0, 1.0]}, "`times` must be finite, above 0"),
        ({"times": [1.0, np.nan]}, "`times` must be finite, above 0"),
        ({"errors": [1.0]}, r"`errors` must be of shape \(2,\), as `times`, got shape \(1,\)"),
        ({"errors": [1.0, np.nan]}, r"`errors` must be in 0\.\.100, got nan"),
        ({"errors": [1.0, 101.0]}, r"`errors` must be in 0\.\.100, got 101\.0\. These are percents"),
        ({"sem": [1.0]}, r"`sem` must be of shape \(2,\)"),
        ({"sem": [np.nan, -1.0]}, r"`sem` must be in 0\.\.100, got -1\.0"),
        ({"sem": [np.nan, np.inf]}, r"`sem` must be in 0\.\.100, got inf"),
        ({"trials": 0}, "`trials` must be at least 1, got 0"),
    ],
)
def test_what_is_no_line_is_refused(change, sentence):
    given = {"name": "a", "origin": "ours", "times": [1.0, 2.0], "errors": [9.0, 3.0], "trials": 3}
    with pytest.raises(InvalidArgument, match=sentence):
        Line(**(given | change))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"truth": 4}, r"`truth` must be in 0\.\.3, got 4"),
        ({"truth": -1}, "`truth` must be at least 0, got -1"),
        ({"scores": SCORES[0]}, r"`scores` must be of shape \(time, classes\), got shape \(4,\)"),
        ({"scores": SCORES * np.nan}, "`scores` must be finite, got nan"),
        ({"threshold": -1.0}, "`threshold` must be at least 0"),
        ({"threshold": np.inf}, "`threshold` must be finite, got inf. Without a threshold, give None."),
        ({"classes": ("a", "b")}, "`classes` must be 4 names, got 2"),
    ],
)
def test_what_is_no_trajectory_is_refused(change, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        Trajectories(**({"title": "a", "truth": 0, "scores": SCORES, "threshold": 1.0} | change))


def test_a_row_of_another_width_no_line_and_the_same_line_twice_are_refused():
    with pytest.raises(InvalidArgument, match="`rows` must be 2 cells a row, as there are columns, got 1 in row 1"):
        Table("a", ("b", "c"), (("1", "2"), ("3",)))
    with pytest.raises(InvalidArgument, match="`lines` must be one line at least, got none"):
        Comparison("a", "b", ())
    with pytest.raises(InvalidArgument, match=r"one for each name and origin, got \('MSPRT-TANDEM', 'ours'\) twice"):
        Comparison("a", "b", (_ours(), _ours()))


def test_the_page_asked_for_nothing_and_complained_of_nothing(whole):
    """Last in the file, after everything that the tests did to it; and that silence means something."""
    page, _ = whole
    assert page.noise == []
    page.evaluate("() => { new Image().src = 'https://example.org/x.png'; }")
    page.wait_for_timeout(100)
    assert any("example.org" in noise and "Content Security Policy" in noise for noise in page.noise)
