"""Observations in and decisions out: what a service decides is what the classifier decides."""

import json

from serving import line, lines_at, post
from waves import waves


def test_a_service_decides_as_the_classifier_does(clf, service):
    x, _ = waves(30, 20, seed=2)
    names = [f"same-{index}" for index in range(30)]
    late = 0
    for time in range(20):
        answer = post(service.client, lines_at(x, time, names))
        assert answer["rejected"] == []
        late += answer["late"]
        assert answer["accepted"] + answer["late"] == 30
    for name in names:
        if service.client.get(f"/v1/series/{name}").json()["state"] == "open":
            service.client.post(f"/v1/series/{name}/finish")
    found = {
        each["series"]: each
        for each in service.client.get("/v1/decisions", params={"limit": 10_000}).json()["decisions"]
        if str(each["series"]).startswith("same-")
    }
    decided = clf.decide(x)
    assert [found[name]["label"] for name in names] == decided.labels.tolist()
    assert [found[name]["time"] for name in names] == decided.times.tolist()
    assert [found[name]["crossed"] for name in names] == decided.crossed.tolist()
    assert late == int((20 - decided.times).sum())
    ids = [each["id"] for each in service.client.get("/v1/decisions", params={"limit": 10_000}).json()["decisions"]]
    assert ids == list(range(1, len(ids) + 1))


def test_a_bad_line_costs_that_line_alone(service):
    body = "\n".join(
        [
            '{"series": "b1", "x": [1, 2]}',
            "{bad",
            '{"series": "b2", "x": [1, 2, 3]}',
            "",
            '{"series": "b3", "x": [0, 0]}',
        ]
    )
    answer = post(service.client, body)
    assert answer["accepted"] == 2
    assert [each["line"] for each in answer["rejected"]] == [2, 3]
    assert "`line 2` must be a JSON object" in answer["rejected"][0]["reason"]
    assert service.client.get("/v1/series", params={"search": "b3"}).json()["found"] == 1


def test_line_numbers_are_those_of_the_own_request(service):
    post(service.client, lines_at(waves(5, 2)[0], 0))
    answer = post(service.client, "\n\n\n{}\n")
    assert [each["line"] for each in answer["rejected"]] == [4]
    assert answer["rejected"][0]["reason"].startswith("`line 4` must be")


def test_an_end_mark_ends_a_series_and_the_next_line_begins_another_run(service):
    assert post(service.client, line("ends", [5, 5], end=True))["accepted"] == 1
    assert post(service.client, line("ends", [5, 5]))["accepted"] == 1
    again = service.client.get("/v1/series/ends").json()
    assert (again["state"], again["run"], again["time"]) == ("open", 2, 1)


def test_a_series_id_may_be_anything_that_json_can_write(service):
    names = [
        "a/b",
        "../../etc/passwd",
        "<script>alert(1)</script>",
        "Ünïcödé 🌧",
        "7",
        7,
        -3,
        "a\nb",
        "%2F",
        "finish",
        2**70,
        "\x00",
    ]
    for name in names:
        assert post(service.client, json.dumps({"series": name, "x": [1, 2]}))["accepted"] == 1, name
    listed = service.client.get("/v1/series", params={"limit": 1000}).json()["series"]
    assert {each["series"] for each in listed} >= set(names)
    from urllib.parse import quote

    for name in names:
        if name not in ("../../etc/passwd", 7):  # clients shorten the one; text comes before the other
            found = service.client.get(f"/v1/series/{quote(str(name), safe='')}")
            assert found.status_code == 200, name
            assert found.json()["series"] == name


def test_no_line_can_change_which_fields_are_read(service):
    assert post(service.client, '{"pump": "x", "a": 1, "b": 2}')["accepted"] == 0
    assert post(service.client, '{"x": [1, 2]}')["accepted"] == 0
    assert post(service.client, line("after", [1, 2]))["accepted"] == 1


def test_bodies_that_are_no_text_or_empty(service):
    assert post(service.client, "") == {
        "accepted": 0,
        "late": 0,
        "rejected": [],
        "last_id": post(service.client, "")["last_id"],
    }
    assert post(service.client, b"\xff\xfe\n\xff").status_code == 422
    mixed = post(service.client, b"\xff\xfe\n" + line("mixed", [1, 2]).encode())
    assert (mixed["accepted"], [each["line"] for each in mixed["rejected"]]) == (1, [1])
    refused = post(service.client, b"\x1f\x8b", headers={"content-encoding": "gzip"})
    assert refused.status_code == 415


def test_finish_and_forget(service):
    post(service.client, line("f1", [1, 2]) + "\n" + line("f2", [1, 2]))
    decision = service.client.post("/v1/series/f1/finish").json()
    assert (decision["series"], decision["crossed"], decision["ended"]) == ("f1", False, "end")
    assert service.client.post("/v1/series/f1/finish").status_code == 409
    assert service.client.get("/v1/series/f1").json()["decision"] == decision
    assert service.client.delete("/v1/series/f2").status_code == 204
    assert service.client.get("/v1/series/f2").status_code == 404
    missing = service.client.post("/v1/series/never/finish")
    assert missing.status_code == 404
    assert "There is no series 'never'" in missing.json()["detail"]
