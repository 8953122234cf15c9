"""Threshold, labels, model, series, metrics."""

import copy

import numpy as np
import pytest

import sooner
from serving import line, lines_at, post, serving
from sooner import EarlyClassifier
from sooner.errors import InvalidArgument
from sooner.estimator.promises import fingerprint
from sooner.evaluate import Watch
from sooner.rules import MSPRT, FixedTime, Halting, LogOdds, Patience, ProbabilityThreshold
from sooner.serve.dial import Dial
from sooner.serve.labels import Labels
from sooner.serve.model import ModelFolder, continued
from sooner.serve.series import statistics_of
from sooner.stream import Arrival, Event, LiveSettings
from sooner.stream.journal import Journal
from sooner.stream.views import OpenSeries
from waves import waves


@pytest.fixture
def running(model_file):
    with serving(sooner.load(model_file), watched_error=0.2) as running:
        yield running


def test_the_dial_shows_what_the_curve_of_the_model_says(running, clf):
    state = running.client.get("/v1/threshold").json()
    assert state["threshold"] == clf.threshold
    assert (state["rule"], state["source"], state["promise"]) == ("MSPRT", "model", None)
    reached = clf.achieved_
    assert (state["error"], state["mean_time"]) == pytest.approx((reached.error, reached.mean_time))
    times = [row["mean_time"] for row in state["curve"]]
    assert times == sorted(times)
    assert 2 <= len(state["curve"]) <= 201
    for row in (state["curve"][3], state["curve"][-1]):
        previewed = running.client.get("/v1/threshold/preview", params={"value": row["threshold"]}).json()
        assert previewed == row


def test_a_new_threshold_holds_from_the_next_observation_on(running):
    x, _ = waves(6, 20, seed=3)
    assert running.client.put("/v1/threshold", json={"threshold": 1e6}).json()["source"] == "set"
    assert post(running.client, lines_at(x, 0))["last_id"] == 0
    assert running.client.put("/v1/threshold", json={"threshold": 0}).json()["threshold"] == 0
    assert post(running.client, lines_at(x, 1))["last_id"] == 6
    decisions = running.client.get("/v1/decisions").json()["decisions"]
    assert {(each["time"], each["crossed"]) for each in decisions} == {(2, True)}


def test_targets_choose_the_threshold_that_the_library_would(running, clf):
    for target in ({"max_error": 0.3}, {"max_mean_time": 5}, {"cost_of_waiting": 0.01}):
        found = running.client.put("/v1/threshold", json=target).json()
        assert found["threshold"] == Dial(clf, promises=True).rule(target).threshold
    running.client.put("/v1/threshold", json={"threshold": clf.threshold})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "`body` must be one of threshold, max_error, max_mean_time, cost_of_waiting, got none"),
        ({"threshold": -1}, "`threshold` must be at least 0"),
        ({"threshold": 1, "max_error": 0.1}, "must be one of threshold"),
        ({"max_error": "x"}, "`body.max_error` is not valid"),
        ({"max_mean_time": 0.5}, "No threshold reaches `max_mean_time`"),
        ({"threshold": [[0, 1], [1, 0]]}, "must be a number, a rule, or a matrix of shape (3, 3)"),
        ({"other": 1}, "`body.other` is not valid"),
    ],
)
def test_what_cannot_be_a_threshold_is_refused_in_a_sentence(service, body, says):
    answer = service.client.put("/v1/threshold", json=body)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]


def test_labels_feed_the_watch_and_each_decision_takes_one(running):
    assert running.client.get("/v1/watch").json()["state"] == "quiet"
    names = [f"l{index}" for index in range(40)]
    post(running.client, "\n".join(line(name, [5, 5], end=True) for name in names))
    decided = running.client.get("/v1/series/l0").json()["decision"]["label"]
    wrong = next(name for name in ("calm", "fast", "slow") if name != decided)
    first = running.client.post("/v1/labels", json={"series": "l0", "run": 1, "label": decided}).json()
    assert first == {"taken": 1, "rejected": []}
    again = running.client.post(
        "/v1/labels", json=[{"series": "l0", "label": decided}, {"series": "l1", "label": "boat"}]
    ).json()
    assert again["taken"] == 0
    assert "`series` must be one that was decided and has no label yet" in again["rejected"][0]["reason"]
    assert "`label` must be one of 'calm', 'fast', 'slow', got 'boat'" in again["rejected"][1]["reason"]
    watch = running.client.get("/v1/watch").json()
    assert (watch["labels"], watch["errors"]) == (1, 0)
    running.client.post("/v1/labels", json=[{"series": name, "label": wrong} for name in names[1:]])
    watch = running.client.get("/v1/watch").json()
    assert (watch["state"], watch["labels"], watch["errors"]) == ("alarm", 40, 39)
    assert "sooner_watch_alarm 1.0" in running.client.get("/metrics").text


def test_labels_survive_a_restart(tmp_path):
    event = Event(1, "a", 1, "calm", 3, True, "rule", 1.0, 0.9, None, 0.0)

    def labels():
        return Labels(
            ["calm", "fast"],
            Watch(0.1),
            lambda series, run: event if (series, run) == ("a", 1) else None,
            tmp_path / "l",
        )

    assert labels().take({"series": "a", "label": "fast"})["taken"] == 1
    with (tmp_path / "l").open("a") as file:
        file.write('{"id": 7, "deci')
    again = labels()
    assert (again.taken, again.wrong, again.watch.labels) == (1, 1, 1)
    assert again.take({"series": "a", "label": "fast"})["taken"] == 0
    assert labels().taken == 1


def test_a_series_shows_its_course_once_it_is_looked_at(service, clf):
    x, _ = waves(1, 5, seed=9)
    service.client.put("/v1/threshold", json={"threshold": 1e6})
    for t in range(5):
        post(service.client, line("course", x[0, :, t]))
        shown = service.client.get("/v1/series/course").json()
    assert [point[0] for point in shown["trajectory"]] == [1, 2, 3, 4, 5]
    assert shown["trajectory"][-1][2] == shown["scores"]
    assert (shown["state"], shown["time"], len(shown["classes"])) == ("open", 5, 3)
    newer = service.client.get("/v1/series/course", params={"after": 3}).json()
    assert newer["trajectory"] == shown["trajectory"][3:]
    page = service.client.get("/v1/series", params={"search": "COURSE", "sort": "margin"}).json()
    assert page["series"][0]["statistic"] == pytest.approx(shown["margin"])
    assert service.client.get("/v1/stats").json()["threshold"] == 1e6
    assert service.client.get("/v1/model").json()["threshold"] == clf.threshold
    assert (page["found"], page["series"][0]["margin"]) == (1, shown["margin"])


def test_metrics_count_and_name_no_series(service):
    post(service.client, line("secret-name", [5, 5], end=True) + "\n{")
    text = service.client.get("/metrics").text
    for name in (
        "sooner_observations_total",
        'sooner_decisions_total{crossed="false"',
        "sooner_series_active",
        "sooner_update_duration_seconds_bucket",
        "sooner_decision_time_observations_bucket",
        'sooner_rejected_total{reason="json"}',
        "sooner_journal_lag_seconds",
        "sooner_build_info{",
        "process_resident_memory_bytes",
    ):
        assert name in text, name
    assert "secret-name" not in text
    assert f"sooner_series_active {service.client.get('/v1/stats').json()['open']:.1f}" in text
    stats = service.client.get("/v1/stats").json()
    assert stats["decisions"] == sum(stats["labels"].values())
    assert stats["rejected"]["json"] >= 1
    assert stats["journal"] is None


def test_the_model_is_described(service):
    model = service.client.get("/v1/model").json()
    assert model["classes"] == ["calm", "fast", "slow"]
    assert model["version"].startswith("sooner ")
    assert len(model["fingerprint"]) == 64


def test_health_docs_and_unknown_paths(service):
    assert service.client.get("/livez").json() == {"status": "ok"}
    assert service.client.get("/readyz").status_code == 200
    docs = service.client.get("/docs").text
    assert "/v1/observations" in docs
    assert "<script" not in docs
    for path, status in (("/nope", 404), ("/v1/", 404), ("/v1/stats/", 404)):
        answer = service.client.get(path)
        assert (answer.status_code, set(answer.json())) == (status, {"detail"})
    assert service.client.patch("/v1/stats").status_code == 405


@pytest.mark.parametrize("rule", ["log_odds", "probability_threshold", "fixed_time"])
def test_every_point_of_the_curve_can_be_set(rule):
    x, y = waves(60, 12, seed=1)
    dial = Dial(EarlyClassifier(rule=rule, random_state=0).fit(x, y), promises=True)
    rules = [dial.rule({"threshold": row["threshold"]}) for row in dial.rows]
    assert [dial.preview(each)["mean_time"] for each in rules] == [row["mean_time"] for row in dial.rows]
    assert len(rules) > 2


def test_the_statistic_is_what_the_rule_compares():
    scores = np.array([0.0, 1.0, 3.0])
    shown = [OpenSeries("a", 1, 4, "slow", 2.0, 0.0, 0.0, scores)]
    others = 3 - np.log(1 + np.e)
    assert statistics_of(MSPRT(2.5), shown) == [2.0]
    assert statistics_of(LogOdds(2.5), shown) == pytest.approx([others])
    assert statistics_of(ProbabilityThreshold(0.9), shown) == pytest.approx([1 / (1 + np.exp(-others))])
    assert statistics_of(FixedTime(5), shown) == [4]
    assert statistics_of(Halting(0.5), shown) == statistics_of(Patience(3, MSPRT(2.5)), shown) == [None]
    assert statistics_of(MSPRT(2.5), []) == []


def test_a_new_model_is_taken_by_new_series_only_and_has_its_own_dial(clf, model_file, tmp_path):
    other = EarlyClassifier(random_state=3).fit(*waves(60, 20, seed=77))
    other.save(tmp_path / "other.sooner")
    content = (tmp_path / "other.sooner").read_bytes()
    x, _ = waves(20, 20, seed=12)
    old, new = [f"old-{index}" for index in range(10)], [f"new-{index}" for index in range(10)]
    with serving(sooner.load(model_file), journal=tmp_path / "journal") as running:
        post(running.client, lines_at(x[:10], 0, old))
        described = running.client.put("/v1/model", content=content).json()
        assert described == running.client.get("/v1/model").json()
        assert described["threshold"] == other.threshold != clf.threshold
        assert running.client.get("/v1/threshold").json()["threshold"] == other.threshold
        for t in range(1, 20):
            post(running.client, lines_at(x[:10], t, old))
        for t in range(20):
            post(running.client, lines_at(x[10:], t, new))
        for each in running.client.get("/v1/series").json()["series"]:
            running.client.post(f"/v1/series/{each['series']}/finish")
        found = {each["series"]: each for each in running.client.get("/v1/decisions").json()["decisions"]}
    for names, model, rows in ((old, clf, x[:10]), (new, other, x[10:])):
        decided = model.decide(rows)
        assert [found[name]["label"] for name in names] == decided.labels.tolist()
        assert [found[name]["time"] for name in names] == decided.times.tolist()


def test_a_body_that_is_no_fitting_model_is_refused(service, tmp_path):
    for content in (b"", b"x" * 1000, b"\x08\x00\x00\x00\x00\x00\x00\x00{}"):
        assert service.client.put("/v1/model", content=content).status_code == 422
    x, y = waves(40, 12, seed=1)
    EarlyClassifier().fit(x[:, :1], y).save(tmp_path / "one.sooner")
    narrow = service.client.put("/v1/model", content=(tmp_path / "one.sooner").read_bytes())
    assert narrow.status_code == 409
    assert narrow.json()["detail"].startswith("`model` must be one with the features [2], as before, got [1].")


def test_a_restart_goes_on_with_the_newest_model_unless_another_one_is_given(clf, tmp_path):
    second, third = (EarlyClassifier(random_state=0).fit(*waves(60, 20, seed=seed)) for seed in (77, 78))
    journal = tmp_path / "journal"

    def started(model, threshold=None):
        """The fingerprints of the model that was given and of the one in use, and what is said."""
        current, live, said = continued(copy.deepcopy(model), threshold, Journal(journal), LiveSettings(), 0.0)
        live.close()
        return fingerprint(current), live, said

    assert started(clf)[0] == fingerprint(clf)
    _, live, _ = continued(clf, None, Journal(journal), LiveSettings(), 0.0)
    live.take([Arrival(0, "", "a", np.array([5.0, 5.0]), None, False)], 0.0)
    live.swap(second, ModelFolder(journal).keep(second), 0.0)
    live.close()
    name, live, said = started(clf)
    assert name == fingerprint(second)
    assert said[-1] == "Continuing with the model that was put in place of the given one while the service ran."
    name, live, said = started(third)
    assert (name, len(live)) == (fingerprint(third), 1)
    assert said[-1] == "New series take the given model; open ones end with the model that they began with."
    name, live, said = started(third, threshold=0.5)
    assert (live.rule.threshold, len(live), len(said)) == (0.5, 1, 1)
    assert started(third)[1].rule.threshold == 0.5  # the dial stays where it was
    x, y = waves(40, 12, seed=1)
    with pytest.raises(InvalidArgument, match="`model` must be one with the features"):
        started(EarlyClassifier().fit(x[:, :1], y))
