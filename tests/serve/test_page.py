"""The page of the service in a real browser, against the real service."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import sooner
from browsing import open_browser
from serving import line, lines_at, post, serving
from sooner import EarlyClassifier
from sooner.series import Series
from waves import waves

ROWS = 20
TOKEN = "a-token-of-some-length"
NASTY = [
    "<img src=x onerror=\"alert('image')\">",
    "</script><script>alert('script')</script>",
    "javascript:alert(1)//\"'`${alert(2)}",
    "a/b?c=d#e%2e & naïve 猫 🐈 \u202egnp.exe \u2028",
    "..",
    "long " * 60,
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from open_browser()


@pytest.fixture(scope="module")
def service(clf):
    with serving(clf, watched_error=0.2) as running:
        yield running


@pytest.fixture
def show(browser):
    """Opens the page of a service; its `noise` is what it complained of, and what it asked of others."""
    contexts = []

    def opened(running, *, width=1280, height=900, scheme="light", ready="#live:not([hidden])"):
        contexts.append(browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.set_default_timeout(30_000)
        page.noise = []
        page.on("console", lambda message: page.noise.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.noise.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (page.noise.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        own = (running.url, "data:image/svg+xml")
        page.on("request", lambda asked: None if asked.url.startswith(own) else page.noise.append(asked.url))
        page.goto(running.url)
        page.wait_for_selector(ready)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture
def waiting(service):
    """A service that decides nothing by itself."""
    service.client.put("/v1/threshold", json={"threshold": 1e6})
    return service


def text(page, selector):
    return page.locator(selector).inner_text()


def until(page, condition, argument=None):
    page.wait_for_function(condition, arg=argument)


def shows(page, selector, pattern):
    """Wait until the text of an element matches a pattern."""
    until(page, "([name, wanted]) => RegExp(wanted).test(document.querySelector(name).innerText)", [selector, pattern])


def feed(page):
    rows = page.locator("#feed li")
    return [
        (row.locator("button").inner_text(), row.locator(".class").inner_text().strip(), row.inner_text())
        for row in (rows.nth(index) for index in range(rows.count()))
    ]


def test_decisions_arrive_newest_first_and_the_counts_follow(service, show):
    x, _ = waves(2, 20, seed=5)
    post(service.client, line("feed-early", x[0, :, 0], end=True))
    page = show(service)
    page.wait_for_selector("#feed li")
    post(service.client, line("feed-late", x[1, :, 0], end=True))
    page.wait_for_selector("#feed li:has-text('feed-late')")
    decided = {each["series"]: each for each in service.client.get("/v1/decisions").json()["decisions"]}
    found = feed(page)
    assert [row[:2] for row in found[:2]] == [(name, decided[name]["label"]) for name in ("feed-late", "feed-early")]
    assert "1 read" in found[0][2]
    assert "forced: end of series" in found[0][2]
    shows(page, "#decisions", f"^{len(decided)} in all")
    assert text(page, "#connection") == "Live"
    page.locator("#feed button", has_text="feed-late").click()
    shows(page, "#one-note", f"^Decided for {decided['feed-late']['label']} after 1 observation, forced")
    assert page.noise == []


def test_the_dial_changes_the_running_threshold_once_it_is_applied(service, show, clf):
    service.client.put("/v1/threshold", json={"threshold": clf.threshold})
    page = show(service)
    assert text(page, "#rule") == f"MSPRT, running at {clf.threshold:.4g}"
    assert page.locator("#apply").is_disabled()
    assert "promises nothing" in text(page, "#promise")
    page.locator("#slider").evaluate("(slider) => { slider.value = 40; slider.dispatchEvent(new Event('input')); }")
    wanted = service.client.get("/v1/threshold").json()["curve"][40]
    assert read_dial(page) == pytest.approx(
        (100 * wanted["error"], wanted["mean_time"], 100 * wanted["forced"]), rel=0.01
    )
    assert text(page, "#dial-error-now").startswith("now ")
    assert service.client.get("/v1/threshold").json()["threshold"] == clf.threshold
    assert text(page, "#apply") == f"Apply {float(page.input_value('#exact')):.4g} to all series"
    page.locator("#apply").click()
    shows(page, "#dial-message", "holds for all series")
    assert service.client.get("/v1/threshold").json()["threshold"] == wanted["threshold"]
    assert page.locator("#apply").is_disabled()


def test_an_exact_threshold_can_be_tried_and_one_set_elsewhere_shows_up(service, show):
    page = show(service)
    for typed, says in (
        ("abc", "A threshold is a number"),
        ("-1", "must be at least 0"),
        ("", "A threshold is a number"),
    ):
        page.fill("#exact", typed)
        shows(page, "#dial-message", says)
        assert page.locator("#apply").is_disabled()
    for typed, meant in (("0", "0"), ("1,50", "1.5")):
        page.fill("#exact", typed)
        shows(page, "#apply", f"^Apply {meant} to all series$")
        assert page.input_value("#exact") == typed
    page.locator("#cancel").click()
    assert text(page, "#apply") == "Apply to all series"
    service.client.put("/v1/threshold", json={"threshold": 3.25})
    shows(page, "#rule", "running at 3.25$")
    assert page.input_value("#exact") == "3.25"
    page.locator("#curve").click(position={"x": 300, "y": 60})
    assert not page.locator("#apply").is_disabled()


def read_dial(page):
    return tuple(float(text(page, name).rstrip("%")) for name in ("#dial-error", "#dial-time", "#dial-forced"))


def test_ten_thousand_open_series_are_paged_and_searched(waiting, show):
    x, _ = waves(500, 20, seed=6)
    for part in range(20):
        names = [f"big-{index:05d}" for index in range(500 * part, 500 * (part + 1))]
        post(waiting.client, lines_at(x, 0, names))
    page = show(waiting)
    page.fill("#search", "BIG-")
    shows(page, "#range", "^1.20 of 10,000 found among 1")
    assert names_in_table(page) == [f"big-{index:05d}" for index in range(ROWS)]
    page.locator("#next").click()
    shows(page, "#range", "^21.40 of")
    assert names_in_table(page) == [f"big-{index:05d}" for index in range(ROWS, 2 * ROWS)]
    page.select_option("#sort", "margin")
    shows(page, "#range", "^1.20 of")
    margins = [float(value) for value in page.locator("#series output").all_inner_texts()]
    assert margins == sorted(margins, reverse=True)
    best = waiting.client.get("/v1/series", params={"search": "big-", "sort": "margin", "limit": 1}).json()["series"]
    assert margins[0] == pytest.approx(best[0]["margin"], abs=0.006)
    page.fill("#search", "09999")
    shows(page, "#range", "^1.1 of 1 found")
    assert names_in_table(page) == ["big-09999"]
    page.fill("#search", "no such series")
    shows(page, "#series-empty", "^No series ID contains this text")
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    assert page.noise == []


def names_in_table(page):
    return page.locator("#series tbody button").all_inner_texts()


def test_a_chosen_series_is_drawn_as_it_goes_on(waiting, show):
    x, _ = waves(1, 20, seed=8)
    post(waiting.client, line("drawn", x[0, :, 0]))
    page = show(waiting)
    page.fill("#search", "drawn")
    page.locator("#series button", has_text="drawn").click()
    shows(page, "#one-note", "after 1 observation,")
    for time in range(1, 6):
        post(waiting.client, line("drawn", x[0, :, time]))
    shows(page, "#one-note", "after 6 observations,")
    lines = page.locator("#course .score").evaluate_all("(lines) => lines.map((line) => line.getAttribute('points'))")
    assert [len(points.split()) for points in lines] == [6, 6, 6]
    last = [float(value) for value in page.locator("#legend .number").all_inner_texts()]
    scores = np.sort(waiting.client.get("/v1/series/drawn").json()["scores"])[::-1]
    assert last == pytest.approx([scores[0] - scores[1], *(scores[1:] - scores[0])], abs=0.006)
    assert all(one > other for one, other in pairwise(last))
    waiting.client.post("/v1/series/drawn/finish")
    shows(page, "#one-state", "Decided")
    assert (page.locator("#course .decision").count(), page.locator("#course .score").count()) == (1, 4)


def test_hostile_names_are_text(show):
    x, y = waves(60, 8, seed=1)
    labels = np.array(NASTY[:3])[np.unique(y, return_inverse=True)[1]]
    hostile = EarlyClassifier(random_state=0).fit(Series.from_aeon(x, labels, channels=NASTY[:2]))
    with serving(hostile) as running:
        running.client.put("/v1/threshold", json={"threshold": 1e6})
        body = "\n".join(line(name, x[0, :, 0], **more) for more in ({}, {"end": True}) for name in NASTY)
        post(running.client, body)
        post(running.client, lines_at(x[: len(NASTY)], 0, [f"{name} open" for name in NASTY]))
        page = show(running)
        page.wait_for_selector("#feed li")
        assert [row[0] for row in feed(page)] == [shown(name) for name in reversed(NASTY)]
        assert names_in_table(page) == [shown(f"{name} open") for name in NASTY]
        for button in page.locator("#feed button, #series button").all():
            button.click()
            shows(page, "#one-note", "after 1 observation|2 observations|cannot ask")
        assert NASTY[0] in text(page, "#about")
        assert page.evaluate("document.querySelectorAll('img, main a, iframe').length") == 0
        assert page.noise == []


def shown(name):
    """White space as a browser shows it."""
    return re.sub(r"[ \n]+", " ", name).strip(" ")


def test_the_policy_lets_only_the_script_of_the_page_run(service, show):
    policy = service.client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = show(service)
    refused = page.evaluate(
        """() => [
          () => (document.body.innerHTML = "<img src=x onerror=alert(1)>"),
          () => document.body.setAttribute("onclick", "alert(2)"),
        ].map((attempt) => { try { attempt(); return false; } catch { return true; } })"""
    )
    assert refused == [True, True]
    assert not any(noise.startswith("dialog") for noise in page.noise)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_horizontal_scrolling(waiting, show, scheme):
    x, _ = waves(4, 20, seed=2)
    post(waiting.client, lines_at(x, 0, ["narrow", *(f"narrow {'W' * 90} {index}" for index in range(3))]))
    post(waiting.client, line("narrow", x[0, :, 1]))
    page = show(waiting, width=390, height=844, scheme=scheme)
    page.fill("#search", "narrow")
    shows(page, "#range", "^1.4 of 4")
    page.locator("#series button").nth(1).click()
    shows(page, "#one-note", r"after \d observation")
    width, right = page.evaluate(
        """() => [document.documentElement.scrollWidth,
          Math.max(...[...document.querySelectorAll("main *")].filter((node) => !node.closest("svg, .name, .hidden"))
            .map((node) => node.getBoundingClientRect().right))]"""
    )
    assert width == 390
    assert right <= 390
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) > 384) == (scheme == "light")
    assert page.noise == []


def test_a_lost_connection_is_said_and_recovers(service, show):
    page = show(service)
    page.context.set_offline(True)
    page.wait_for_selector("#lost:not([hidden])")
    assert "The service does not answer" in text(page, "#lost")
    post(service.client, line("meanwhile", [5, 5], end=True))
    page.context.set_offline(False)
    page.wait_for_selector("#lost", state="hidden")
    page.wait_for_selector("#feed li:has-text('meanwhile')")
    assert text(page, "#connection") == "Live"


def test_a_token_is_asked_for_and_kept_in_the_tab(clf, show):
    with serving(clf, token=TOKEN) as running:
        page = show(running, ready="#token-form:not([hidden])")
        page.fill("#token", TOKEN + "x")
        page.keyboard.press("Enter")
        shows(page, "#token-message", "does not know this token")
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        page.wait_for_selector("#live:not([hidden])")
        post(running.client, line("locked", [5, 5], end=True))
        page.wait_for_selector("#feed li:has-text('locked')")
        page.reload()
        page.wait_for_selector("#live:not([hidden])")
        kept = page.evaluate(
            "JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie, location.href])"
        )
        assert json.loads(kept) == [{"sooner.token": TOKEN}, {}, "", f"{running.url}/"]
        page.locator("#forget").click()
        page.wait_for_selector("#token-form:not([hidden])")
        assert page.evaluate("sessionStorage.length") == 0
        assert page.locator("#live").is_hidden()


def test_an_alarm_of_the_watch_raises_a_banner(service, show):
    page = show(service)
    shows(page, "#watch-state", "Quiet")
    assert page.locator("#alarm").is_hidden()
    names = [f"alarm-{index}" for index in range(40)]
    post(service.client, "\n".join(line(name, [5, 5], end=True) for name in names))
    decided = service.client.get("/v1/series/alarm-0").json()["decision"]["label"]
    wrong = next(name for name in ("calm", "fast", "slow") if name != decided)
    service.client.post("/v1/labels", json=[{"series": name, "label": wrong} for name in names])
    page.wait_for_selector("#alarm:not([hidden])")
    assert "does not hold" in text(page, "#alarm")
    assert (text(page, "#watch-labels"), text(page, "#watch-share")) == ("40", "100.0%")
    assert page.title() == "Alarm · sooner live"


def test_a_model_without_held_out_series_has_a_dial_without_a_curve(model_file, show):
    old = sooner.load(model_file)
    old.held_out_ = old.held_out_.at_most(0)
    with serving(old) as running:
        page = show(running)
        assert len(text(page, "#dial-error")) == 1
        assert page.locator("#slider").is_hidden()
        assert "no held-out series" in text(page, "#promise")
        assert "/v1/observations" in text(page, "#series-empty code")
        page.fill("#exact", "0.5")
        page.locator("#apply:not([disabled])").click()
        shows(page, "#rule", "running at 0.5$")
        assert page.noise == []
