"""`sooner serve` as a process: its messages, its graceful stop, and what survives what."""

import random
import resource
import signal
import sys
import threading

import httpx
import numpy as np
import pytest

from command import said_of_error
from serving import Process, Sender, line, post
from waves import waves


def all_decisions(url):
    found, last = [], 0
    while page := httpx.get(f"{url}/v1/decisions", params={"after": last, "limit": 10_000}).json()["decisions"]:
        found, last = found + page, page[-1]["id"]
    return found


def check_decisions(clf, x, names, found):
    """The decisions are those of the classifier, each ID and each series once."""
    assert [each["id"] for each in found] == list(range(1, len(found) + 1))
    by_name = {each["series"]: each for each in found}
    assert len(by_name) == len(found) == len(names)
    decided = clf.decide(x)
    assert [by_name[name]["label"] for name in names] == decided.labels.tolist()
    np.testing.assert_array_equal([by_name[name]["time"] for name in names], decided.times)


def test_sigterm_keeps_open_series_in_the_journal_and_a_restart_goes_on(clf, model_file, tmp_path):
    x, _ = waves(20, 20, seed=4)
    names = [f"s{index}" for index in range(20)]
    with Process(tmp_path, model_file, "--journal", tmp_path / "journal") as process:
        stop_and_go_on(process, clf, x, names, tmp_path / "journal")


def stop_and_go_on(process, clf, x, names, journal):
    with httpx.Client(base_url=process.url) as client:
        for t in range(3):
            assert post(client, "\n".join(line(name, case[:, t]) for name, case in zip(names, x, strict=True)))
        before = client.get("/v1/series", params={"limit": 100}).json()
        decided = all_decisions(process.url)
        client.put("/v1/threshold", json={"threshold": clf.threshold + 0.5})
        client.put("/v1/threshold", json={"threshold": clf.threshold})
    assert process.end() == 0
    stopped = f"Stopped after {len(decided)} decisions: {before['open']} open series are kept in {journal}."
    assert process.said[-2:] == ["Stopping: no new observations are taken.", stopped]
    process.start()
    assert f"Continuing with {before['open']} open series after {len(decided)} decisions" in process.said[-2]
    assert all_decisions(process.url) == decided
    assert httpx.get(f"{process.url}/v1/stats").json()["journal"]["folder"] == str(journal)
    sender = Sender(process.url, x, names)
    with httpx.Client(base_url=process.url) as client:
        for index in range(20):
            sender.ask(client, index)
    sender.run()
    check_decisions(clf, x, names, all_decisions(process.url))
    assert process.end(signal.SIGINT) == 0
    assert "Traceback" not in "\n".join(process.said)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "`--token-file` must be given to listen on 0.0.0.0, got no token. Give --token-file FILE"),
        (["--host", "no.such.host.invalid", "--token-file", "{token}"], "`--port` must be a free port of an"),
        (["--idle", "soon"], "`--idle` must be a duration, got 'soon'."),
        (["--rearm", "later"], "`--rearm` must be never, next, or gap with a duration"),
        (["--tls-key", "{token}"], "must be given together with its key"),
        (["--journal", "{token}"], "`--journal` must be a folder, got the file"),
        (["--coverage", "0.9"], "`--coverage` must be given with --at-end set only"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_in_a_sentence(monkeypatch, capsys, model_file, tmp_path, options, says):
    (tmp_path / "token").write_text("a-token-of-some-length")
    typed = [option.format(token=tmp_path / "token") for option in options]
    code, said = said_of_error(monkeypatch, capsys, "serve", model_file, "--port", 0, *typed)
    assert (code, says in said) == (2, True), said


@pytest.mark.faults
def test_nothing_is_lost_or_doubled_when_the_service_is_killed_under_load(clf, model_file, tmp_path):
    chance = random.Random(7)
    x, _ = waves(600, 20, seed=6)
    names = [f"s{index}" for index in range(600)]
    with Process(tmp_path, model_file, "--journal", tmp_path / "journal") as process:
        kill_under_load(process, chance, clf, x, names)
    assert "Traceback" not in "\n".join(process.said)


def kill_under_load(process, chance, clf, x, names):
    senders = [Sender(process.url, x[part::3], names[part::3], lines=7) for part in range(3)]
    threads = [threading.Thread(target=sender.run) for sender in senders]
    heard = {}
    over = threading.Event()
    listener = threading.Thread(target=listen, args=(process.url, heard, over))
    for thread in (*threads, listener):
        thread.start()
    for _ in range(4):
        threading.Event().wait(chance.uniform(0.05, 0.8))
        process.end(signal.SIGKILL)
        process.start()
    for thread in threads:
        thread.join()
    found = all_decisions(process.url)
    check_decisions(clf, x, names, found)
    while len(heard) < len(found):
        threading.Event().wait(0.05)
    over.set()
    process.end()
    listener.join()
    assert [heard[each["id"]] for each in found] == found


def listen(url, heard, over):
    """Read the event stream, again and again from where it was cut."""
    import json

    while not over.is_set():
        headers = {"accept": "text/event-stream", "last-event-id": str(max(heard, default=0))}
        try:
            with httpx.stream("GET", f"{url}/v1/decisions", headers=headers, timeout=20) as answer:
                for text in answer.iter_lines():
                    if text.startswith("data: "):
                        record = json.loads(text[6:])
                        assert heard.setdefault(record["id"], record) == record
        except httpx.HTTPError:
            over.wait(0.1)


@pytest.mark.faults
@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_full_disk_refuses_writes_and_damages_nothing(clf, model_file, tmp_path):
    x, _ = waves(300, 20, seed=8)
    names = [f"s{index}" for index in range(300)]

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))

    with Process(tmp_path, model_file, "--journal", tmp_path / "journal") as process:
        process.end(signal.SIGTERM)  # the journal has its copy of the model now, which is larger
        process.before = small_files
        process.start()
        sender = Sender(process.url, x, names, lines=20)
        sender.run(until=lambda: len(sender.refused) > 3)
        refused = sender.refused[0]
        assert refused.status_code == 507
        assert "cannot be written" in refused.json()["detail"]
        assert "Nothing was taken. Make room, and send it again." in refused.json()["detail"]
        assert httpx.get(f"{process.url}/readyz").status_code == 503
        assert httpx.get(f"{process.url}/v1/stats").json()["open"] > 0  # what needs no room goes on
        process.before = None
        process.end(signal.SIGKILL)  # with the disk full
        process.start()
        sender.run()
        check_decisions(clf, x, names, all_decisions(process.url))
    assert "Traceback" not in "\n".join(process.said)
