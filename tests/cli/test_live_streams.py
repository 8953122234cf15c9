"""`sooner stream` with silence, re-arm, bad lines and a journal."""

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import sooner
from command import heard, run, said_of_error
from sooner.cli import app
from sooner.stream.journal.entries import unpacked
from sooner.stream.journal.segments import frames_of, segments_in
from waves import waves


@pytest.fixture(scope="module")
def table():
    """Observations of ten pumps, and what a batch decides about them."""
    return waves(10, seed=2)[0]


def lines_of(x, times=range(30)):
    return [
        json.dumps({"pump": f"p{i}", "at": t, "hum": x[i, 0, t], "flow": x[i, 1, t]})
        for t in times
        for i in range(len(x))
    ]


def decided(text):
    """The decisions in an output, each once."""
    records = {record["event"]: record for record in map(json.loads, text.splitlines())}
    return {(record["pump"], record["run"]): (record["label"], record["time"]) for record in records.values()}


def expected(home, x):
    batch = sooner.load(home / "pumps.sooner").decide(x)
    return {(f"p{i}", 1): (batch.labels[i], batch.times[i]) for i in range(len(x))}


@pytest.fixture
def pipe(monkeypatch):
    """The end of a pipe whose other end is the standard input."""
    read, write = os.pipe()
    with os.fdopen(read, "r") as stdin, os.fdopen(write, "w") as sender:
        monkeypatch.setattr("sys.stdin", stdin)
        yield sender


def streamed(capsys, *options):
    """What the command prints, in the process of the tests."""
    app(["stream", *map(str, options)], standalone_mode=False)
    return capsys.readouterr()


def test_lines_carry_what_a_decision_rests_on(home, table):
    line = json.loads(run("stream", home / "pumps.sooner", stdin="\n".join(lines_of(table))).splitlines()[0])
    assert list(line) == [
        "pump",
        "label",
        "time",
        "crossed",
        "margin",
        "posterior",
        "at",
        "series",
        "run",
        "ended",
        "event",
    ]
    assert (line["at"], line["series"], line["event"], line["ended"]) == (line["time"] - 1, line["pump"], 1, "rule")
    clf = sooner.load(home / "pumps.sooner")
    index = int(line["pump"][1:])
    assert line["posterior"] == pytest.approx(clf.predict_proba(table[[index]]).max(), abs=1e-4)


def test_bad_lines_can_be_skipped_and_are_counted(home, table):
    lines = lines_of(table)
    spoiled = [lines[0], "{broken", *lines[1:40], '{"pump": "p1", "hum": "x", "flow": 1}', *lines[40:], "[]"]
    found = heard("stream", home / "pumps.sooner", "--bad-lines", "skip", stdin="\n".join(spoiled))
    assert decided(found.stdout) == expected(home, table)
    assert found.stderr.startswith("3 lines were skipped (2 json, 1 number). The first: `line 2` must be a JSON object")
    stopped = heard("stream", home / "pumps.sooner", "--bad-lines", "skip", stdin="\n".join(lines))
    assert stopped.stderr == ""


def test_decisions_before_a_bad_line_are_printed_and_none_after_it(home, table, monkeypatch, capsys):
    lines = lines_of(table)
    whole = run("stream", home / "pumps.sooner", stdin="\n".join(lines)).splitlines()
    for cut in (1, 60, 155):
        spoiled = [*lines[:cut], "{broken", *lines[cut:]]
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(spoiled)))
        with pytest.raises(sooner.errors.InvalidArgument, match=f"`line {cut + 1}` must be a JSON object"):
            streamed(capsys, home / "pumps.sooner")
        printed = capsys.readouterr().out.splitlines()
        assert printed == whole[: len(printed)]
        before = heard("stream", home / "pumps.sooner", stdin="\n".join(lines[:cut])).stdout.splitlines()
        assert printed == [line for line in before if json.loads(line)["ended"] == "rule"]


def test_silence_ends_a_series_although_nothing_arrives(home, table, pipe, capsys):
    pipe.write(lines_of(table[:1])[0] + "\n")
    pipe.flush()
    began = time.monotonic()
    threading.Timer(1.5, pipe.close).start()
    said = streamed(capsys, home / "pumps.sooner", "--idle", "300ms", "--threshold", "1000")
    (record,) = map(json.loads, said.out.splitlines())
    assert (record["pump"], record["ended"], record["crossed"]) == ("p0", "idle", False)
    assert time.monotonic() - began < 30


def test_rearm_begins_another_run(home, table):
    said = run("stream", home / "pumps.sooner", "--rearm", "next", "--threshold", "1", stdin="\n".join(lines_of(table)))
    runs = {}
    for record in map(json.loads, said.splitlines()):
        assert record["run"] == runs.get(record["pump"], 0) + 1
        runs[record["pump"]] = record["run"]
    assert max(runs.values()) > 1


def test_sigterm_keeps_open_series_where_there_is_a_journal(home, table, pipe, tmp_path, capsys):
    lines, options = lines_of(table), (home / "pumps.sooner", "--journal", tmp_path / "journal")
    pipe.write("\n".join(lines[:45]) + "\n")
    pipe.flush()
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    first = streamed(capsys, *options)
    assert "open series are kept in" in first.err
    rest = heard("stream", *options, stdin="\n".join(lines[45:]))
    assert " continues: " in rest.stderr
    assert "and 0 decisions are printed again" in rest.stderr
    assert decided(first.out + rest.stdout) == expected(home, table)
    events = [json.loads(line)["event"] for line in (first.out + rest.stdout).splitlines()]
    assert events == list(range(1, 11))


def test_the_threshold_of_the_journal_stays_unless_another_is_given(home, table, tmp_path):
    options = ("stream", home / "pumps.sooner", "--journal", tmp_path / "journal", "--rearm", "next")
    lines = "\n".join(lines_of(table[:1], range(15)))
    slow = run(*options, "--threshold", "1000", stdin=lines)
    assert [json.loads(line)["ended"] for line in slow.splitlines()] == ["close"]
    again = run(*options, stdin=lines)
    assert [json.loads(line)["ended"] for line in again.splitlines()] == ["close"]
    fast = run(*options, "--threshold", "0.1", stdin=lines)
    assert {json.loads(line)["ended"] for line in fast.splitlines()} >= {"rule"}


def test_a_promise_does_not_hold_with_a_deadline_in_seconds(home, tmp_path, monkeypatch, capsys):
    code, said = said_of_error(monkeypatch, capsys, "stream", home / "pumps.sooner", "--idle", "soon")
    assert (code, said.partition(",")[0]) == (2, "error: `--idle` must be a duration")
    code, said = said_of_error(monkeypatch, capsys, "stream", home / "pumps.sooner", "--rearm", "gap")
    assert (code, said.partition(",")[0]) == (2, "error: `--rearm` must be never")
    (tmp_path / "file").write_text("")
    code, said = said_of_error(monkeypatch, capsys, "stream", home / "pumps.sooner", "--journal", tmp_path / "file")
    assert (code, said.partition(",")[0]) == (2, "error: `--journal` must be a folder")


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(2))
def test_kill_9_loses_no_decision(home, table, tmp_path, seed):
    """The lines that a killed process had not read yet are sent again: those after the ones that the journal holds."""
    chance, lines, output = random.Random(seed), lines_of(table), ""
    command = [sys.executable, "-m", "sooner", "stream", str(home / "pumps.sooner"), "--journal", str(tmp_path / "j")]
    sent = 0
    for number in range(3):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        end = len(lines) if number == 2 else chance.randint(sent, len(lines))
        process.stdin.write("".join(line + "\n" for line in lines[sent:end]))
        if number == 2:
            output += process.communicate(timeout=120)[0]
            assert process.returncode == 0
            break
        process.stdin.flush()
        taken = _wait_until_taken(tmp_path / "j", end - sent)
        process.send_signal(signal.SIGKILL)
        output += process.communicate()[0]
        assert taken
        sent = end
    assert decided(output) == expected(home, table)
    events = [json.loads(line)["event"] for line in output.splitlines()]
    assert sorted(set(events)) == list(range(1, 11))


def _wait_until_taken(folder, count):
    """Whether the entries since the last snapshot come to hold so many lines; the folder is copied, as another process has it."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with tempfile.TemporaryDirectory() as copy:
            entries = []
            if folder.exists():
                shutil.copytree(folder, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.part", ".*"))
                entries = [unpacked(frame.content)[0] for path in segments_in(Path(copy)) for frame in frames_of(path)]
        if sum(len(entry.get("keys", ())) for entry in entries) >= count:
            return True
        time.sleep(0.05)
    return False
