"""The command line, as a person meets it: each verb, in the order in which a newcomer would use them."""

import io
import json
import re
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sooner
from command import heard, run, said_of_error, write_table
from sooner.cli import main
from sooner.rules import FITTERS, MSPRT, Halting, NotBefore
from waves import waves

VERBS = ["demo", "train", "evaluate", "threshold", "stream", "serve", "score", "tune", "reproduce", "bench", "data"]


def test_every_verb_explains_itself():
    for verb in VERBS:
        page = run(verb, "--help")
        assert "Usage:" in page
        assert len(page.splitlines()) > 8
    assert all(verb in run("--help") for verb in VERBS)


def test_training_says_what_it_took_and_what_it_reaches(home, tmp_path):
    out = tmp_path / "m.sooner"
    said = run(*("train", home / "pumps.csv", "--series", "pump", "--time", "at", "--label", "state", "--out", out))
    assert "Model: rocket (chosen by the size of the data)" in said
    assert "balanced error" in said
    assert f"Written: {out}" in said.replace("\n", "")
    assert "Estimates on 60 held-out series." in said
    for row in sooner.load(out).menu().rows():
        assert re.search(r"\W+".join(map(re.escape, filter(None, row))), said), row
    assert sooner.load(out).columns_.channels == ("hum", "flow")


def test_training_names_its_model_first_and_the_menu_is_in_the_json(home, tmp_path):
    names = ("--series", "pump", "--time", "at", "--label", "state", "--out", tmp_path / "m.sooner")
    told = heard("train", home / "pumps.csv", *names, columns=140).stderr
    assert told.index('Model: rocket ("auto": 60 series, at most 2,000)') < told.index("fitting evaluation times")
    assert "30/30" in told
    quiet = heard("train", home / "pumps.csv", *names, "--json")
    assert "Model" not in quiet.stderr
    assert "fitting" not in quiet.stderr
    found = json.loads(quiet.stdout)
    assert [offer["max_error"] for offer in found["menu"]["offers"]] == [0.1, 0.05, 0.02, 0.01, None]
    assert found["held_out"]["near_chance"] is False


def test_near_chance_is_a_warning_and_without_a_target_there_is_a_menu(home, tmp_path):
    lines = (home / "pumps.csv").read_text().splitlines()
    names = ("calm", "fast", "slow")
    # Labels by the number of the pump, of which the observations say nothing.
    noise = [f"{line.rpartition(',')[0]},{names[int(line[1 : line.index(',')]) // 20]}" for line in lines[1:]]
    (tmp_path / "noise.csv").write_text("\n".join([lines[0], *noise]))
    path, names = tmp_path / "m.sooner", ("--series", "pump", "--time", "at", "--label", "state")
    for verb in (("train", tmp_path / "noise.csv", *names, "--out", path), ("threshold", path)):
        result = heard(*verb, columns=140)
        told = " ".join(result.stderr.split())
        assert re.search(
            r"warning: MSPRT\(threshold=[\d.]+\) is near chance: its balanced error on 60 unseen series is", told
        )
        assert "`sooner threshold MODEL` shows other thresholds." in told
        assert "error at most" in result.stdout


def test_limits_are_by_group_where_there_is_one(home, tmp_path):
    lines = (home / "new.csv").read_text().splitlines()
    sites = [f"{line},s{int(line[1 : line.index(',')]) // 6}" for line in lines[1:]]
    (tmp_path / "sites.csv").write_text("\n".join([lines[0] + ",site", *sites]))
    options = ("evaluate", home / "pumps.sooner", tmp_path / "sites.csv", "--out", tmp_path, "--group", "site")
    said, found = " ".join(run(*options).split()), json.loads(run("threshold", *options[1:3], *options[5:], "--json"))
    assert "on 60 series in 10 groups" in said
    assert said.count("by group") == 2
    assert "95% confidence interval by group" in (tmp_path / "report.html").read_text()
    clf, (x, y) = sooner.load(home / "pumps.sooner"), waves(60, seed=2)
    scored, labels = clf.scores(x), np.searchsorted(clf.classes_, y)
    alike = sooner.evaluate.achieved(
        clf.rule_, scored.scores, labels, lengths=scored.lengths, groups=np.arange(60) // 6
    )
    assert found["groups"] == alike.groups == 10
    assert (found["error_low"], found["error_high"]) == pytest.approx((alike.error_low, alike.error_high))
    assert f"{alike.error_low:.2%} to {alike.error_high:.2%}" in said


def test_evaluation_knows_the_columns_of_the_training(home, tmp_path):
    found = json.loads(run("evaluate", home / "pumps.sooner", home / "new.csv", "--out", tmp_path, "--json"))
    clf = sooner.load(home / "pumps.sooner")
    x, y = waves(60, seed=2)
    assert found["error"] == pytest.approx(1 - clf.score(x, y))
    assert found["mean_time"] == pytest.approx(clf.decide(x).times.mean())
    assert (tmp_path / "report.html").stat().st_size > 1e6
    text = run("evaluate", home / "pumps.sooner", home / "new.csv", "--out", tmp_path, "--threshold", "0.5")
    assert "MSPRT(threshold=0.5) on 60 series" in text
    assert "calm" in text


def test_the_dial_is_turned_and_written_back(home, tmp_path):
    path = tmp_path / "m.sooner"
    path.write_bytes((home / "pumps.sooner").read_bytes())
    found = json.loads(run("threshold", path, "--max-mean-time", "4", "--json"))
    assert found["mean_time"] <= 4
    assert sooner.load(path).threshold == found["threshold"]
    on_new = json.loads(run("threshold", path, home / "new.csv", "--max-error", "0.2", "--json"))
    assert on_new["error"] <= 0.2
    run("threshold", path, "--set", "2.5")
    assert sooner.load(path).threshold == 2.5
    before = path.read_bytes()
    assert "threshold=2.5" in run("threshold", path)
    assert path.read_bytes() == before


def test_a_target_out_of_reach_is_a_sentence_and_changes_nothing(home, tmp_path, monkeypatch, capsys):
    path = tmp_path / "m.sooner"
    path.write_bytes((home / "pumps.sooner").read_bytes())
    code, said = said_of_error(monkeypatch, capsys, "threshold", path, "--max-mean-time", "0.5")
    assert code == 2
    assert said.startswith("error: No threshold reaches `--max-mean-time` of 0.5 on these data: the nearest is 1")
    assert path.read_bytes() == (home / "pumps.sooner").read_bytes()


def test_streams_decide_as_batches_do(home):
    x, _ = waves(60, seed=2)
    lines = [json.dumps({"pump": f"p{i}", "hum": x[i, 0, t], "flow": x[i, 1, t]}) for t in range(30) for i in range(60)]
    records = [json.loads(line) for line in run("stream", home / "pumps.sooner", stdin="\n".join(lines)).splitlines()]
    batch = sooner.load(home / "pumps.sooner").decide(x)
    assert {r["series"]: (r["label"], r["time"]) for r in records} == {
        f"p{i}": (batch.labels[i], batch.times[i]) for i in range(60)
    }
    assert [r["time"] for r in records] == sorted(r["time"] for r in records)


def test_tables_can_be_streamed_as_they_are(home):
    said = run("stream", home / "pumps.sooner", "--format", "csv", stdin=(home / "new.csv").read_text())
    assert len(said.splitlines()) == 60


def test_a_decision_comes_through_a_real_pipe_before_the_next_observation(home):
    x, _ = waves(60, seed=2)
    command = [sys.executable, "-m", "sooner", "stream", str(home / "pumps.sooner"), "--threshold", "1.0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        expected = sooner.load(home / "pumps.sooner").decide(x[:1], 1.0)
        for t in range(int(expected.times[0])):
            process.stdin.write(json.dumps({"pump": 7, "x": x[0, :, t].tolist()}) + "\n")
        process.stdin.flush()
        # The pipe stays open: the answer must not wait for its end.
        record = json.loads(process.stdout.readline())
        assert list(record)[:4] == ["pump", "label", "time", "crossed"]
        assert (record["pump"], record["label"], record["time"]) == (7, expected.labels[0], int(expected.times[0]))
        assert record["series"] == 7
        assert record["margin"] >= 1.0
        assert 0.5 < record["posterior"] <= 1.0
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_the_rule_of_a_model_that_halts_goes_through_every_verb(home, tmp_path):
    out, names = tmp_path / "m.sooner", ("--series", "pump", "--time", "at", "--label", "state")
    assert "halting" in run("train", "--help")
    run(*("train", home / "pumps.csv", *names, "--model", "earliest", "--rule", "halting"), "--out", out, "--quiet")
    clf = sooner.load(out)
    assert isinstance(clf.rule_, Halting)
    told = json.loads(run("threshold", out, "--max-mean-time", "8", "--json"))
    assert told["mean_time"] <= 8
    told = json.loads(run("evaluate", out, home / "new.csv", "--out", tmp_path / "report", "--json"))
    assert told["rule"].startswith("Halting(threshold=")
    assert "The model's own halting probability" in Path(told["report"]).read_text(encoding="utf-8")
    run("score", out, home / "new.csv", tmp_path / "decided.parquet", "--quiet")
    records = run("stream", out, "--format", "csv", stdin=(home / "new.csv").read_text()).splitlines()
    decided = {row["pump"]: row["time"] for row in pq.read_table(tmp_path / "decided.parquet").to_pylist()}
    assert {row["series"]: row["time"] for row in map(json.loads, records)} == decided


def test_a_rule_that_is_listed_is_taken_and_halting_needs_a_model_that_halts(home, tmp_path, monkeypatch, capsys):
    names = (
        "train",
        home / "pumps.csv",
        "--series",
        "pump",
        "--time",
        "at",
        "--label",
        "state",
        "--out",
        tmp_path / "m",
    )
    code, said = said_of_error(monkeypatch, capsys, *names, "--rule", "zzz")
    assert code == 2
    taken = sorted([*FITTERS, "fixed_time", "halting", "log_odds", "msprt", "probability_threshold"])
    assert f"one of {', '.join(map(repr, taken))}, got 'zzz'" in said
    code, said = said_of_error(monkeypatch, capsys, *names, "--rule", "halting")
    assert code == 2
    sentence = "`--rule` must be one that reads scores for the model 'rocket', got 'halting'."
    assert f"{sentence} Only --model earliest says when to stop." in said


def test_bench_states_time_and_memory(home):
    found = json.loads(run("bench", home / "pumps.sooner", "--streams", "20", "--json"))
    assert found["bytes_per_stream"] == sooner.load(home / "pumps.sooner").stream(keyed=True).bytes_per_stream
    assert found["rows"][0]["microseconds"] > 0


def test_tuning_goes_on_where_it_stopped(home, tmp_path):
    (tmp_path / "s.toml").write_text(
        '[model]\nhidden = 4\n[training]\niterations = 4\nvalidate_every = 2\n[search]\n"optimizer.lr" = [1e-2, 1e-3]\n'
    )
    names = ["--series", "pump", "--time", "at", "--label", "state"]
    common = ["tune", home / "pumps.csv", *names, "--settings", tmp_path / "s.toml", "--out", tmp_path / "t", "--json"]
    assert json.loads(run(*common, "--trials", 2))["trials"] == 2
    found = json.loads(run(*common, "--trials", 3))
    assert found["trials"] == 3
    best = sooner.train.settings.read_settings(tmp_path / "t" / "best.toml")
    assert best.optimizer.lr == found["values"]["optimizer.lr"]


@pytest.mark.faults
def test_an_interrupted_training_says_how_to_go_on(home, tmp_path):
    out = tmp_path / "m.sooner"
    command = [sys.executable, "-m", "sooner", "train", str(home / "pumps.csv"), "--out", str(out)]
    command += ["--series", "pump", "--time", "at", "--label", "state", "--model", "recurrent", "--max-epochs", "2000"]
    # Whoever runs the tests in the background may have told them to ignore the signal; a person at a terminal has not.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=heed)
    deadline = time.monotonic() + 90
    while not (tmp_path / "m.sooner.run" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped." in said
    assert "the same command resumes from there" in " ".join(said.split())
    assert not out.exists()


class TestData:
    def test_list_names_what_is_here(self):
        sets = {each["name"]: each["here"] for each in json.loads(run("data", "list", "--json"))["sets"]}
        assert sets["digits"]
        assert sets["JapaneseVowels"]
        assert "nmnist-h" in sets

    def test_show_draws_a_contact_sheet(self, tmp_path):
        run("data", "show", "digits", "--out", tmp_path / "d.png", "--series", "3")
        assert (tmp_path / "d.png").read_bytes()[:4] == b"\x89PNG"

    def test_fetch_refuses_what_it_does_not_know(self, monkeypatch, capsys):
        code, said = said_of_error(monkeypatch, capsys, "data", "fetch", "mnst")
        assert code == 2
        assert said == "error: `NAME` must be one of 'mnist', got 'mnst'. Did you mean 'mnist'?"


class TestVideos:
    """`sooner data features` on small videos in the layout of HMDB51, one of them cut."""

    @pytest.fixture
    def videos(self, tmp_path):
        import av
        import torch

        for name, frames in (("run/a.avi", 6), ("run/b.avi", 5), ("wave/c.avi", 7), ("wave/d.avi", 6)):
            path = tmp_path / "videos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with av.open(str(path), "w") as container:
                film = container.add_stream("mpeg4", rate=25)
                film.width, film.height, film.pix_fmt = 64, 48, "yuv420p"
                for frame in range(frames):
                    image = np.full((48, 64, 3), 30 * frame, dtype=np.uint8)
                    container.mux(film.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
                container.mux(film.encode())
        (tmp_path / "splits").mkdir()
        for name, first, second in (("run", "a", "b"), ("wave", "c", "d")):
            (tmp_path / "splits" / f"{name}_test_split1.txt").write_text(f"{first}.avi 1\n{second}.avi 2\n")
        network = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        rows = torch.export.Dim("rows")
        torch.export.save(
            torch.export.export(network, (torch.zeros(2, 3, 224, 224),), dynamic_shapes=({0: rows},)),
            tmp_path / "b.pt2",
        )
        return tmp_path

    def arguments(self, videos):
        return (
            *("data", "features", "hmdb51", "--videos", videos / "videos", "--splits", videos / "splits"),
            *("--backbone", videos / "b.pt2", "--out", videos / "kept"),
        )

    def test_are_shown_to_a_backbone_once(self, videos):
        found = json.loads(run(*self.arguments(videos), "--json"))
        assert found["failed"] == []
        sets = sooner.data.sets.video.load("hmdb51", splits=videos / "splits", features=videos / "kept", time=4)
        assert sets.test.series().observations.shape[1:] == (4, 3)

    def test_that_are_cut_are_named_at_the_end_and_the_rest_is_done(self, videos, monkeypatch, capsys):
        path = videos / "videos" / "wave" / "c.avi"
        path.write_bytes(path.read_bytes()[:2500])
        code, said = said_of_error(monkeypatch, capsys, *self.arguments(videos))
        assert code == 2
        assert "error: 1 video(s) could not be read and were left out (wave/c.avi: " in said
        assert len(list((videos / "kept").rglob("*.npy"))) == 3

    def test_whole_reach_the_backbone_with_every_pixel(self, tmp_path):
        import av
        import torch

        (tmp_path / "splits").mkdir()
        generator = np.random.default_rng(0)
        for name in ("run", "wave"):
            (tmp_path / "splits" / f"{name}_test_split1.txt").write_text("a.avi 1\n")
            (tmp_path / "videos" / name).mkdir(parents=True)
            with av.open(str(tmp_path / "videos" / name / "a.avi"), "w") as container:
                film = container.add_stream("mpeg4", rate=25)
                film.width, film.height, film.pix_fmt = 320, 240, "yuv420p"
                image = generator.integers(0, 256, (240, 320, 3), dtype=np.uint8)
                container.mux(film.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
                container.mux(film.encode())
        # What the backbone says of a frame is the frame itself.
        rows, seen = torch.export.Dim("rows"), (torch.zeros(2, 3, 240, 320),)
        torch.export.save(
            torch.export.export(torch.nn.Flatten(), seen, dynamic_shapes=({0: rows},)), tmp_path / "b.pt2"
        )
        found = json.loads(run(*self.arguments(tmp_path), "--view", "whole", "--json"))
        with av.open(str(tmp_path / "videos" / "wave" / "a.avi")) as container:
            (frame,) = container.decode(video=0)
        pixels = frame.to_ndarray(format="rgb24").astype(np.float64) / 255
        expected = (pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        vectors = np.load(Path(found["folder"]) / "wave" / "a.avi.npy").reshape(1, 3, 240, 320)
        np.testing.assert_allclose(vectors[0], expected.transpose(2, 0, 1), rtol=1e-3, atol=1e-3)

    def test_are_shown_in_a_view_that_there_is(self, videos, monkeypatch, capsys):
        code, said = said_of_error(monkeypatch, capsys, *self.arguments(videos), "--view", "hole")
        assert code == 2
        assert said == "error: `--view` must be one of 'crop', 'whole', got 'hole'. Did you mean 'whole'?"


class TestBadInput:
    """One clear sentence, exit code 2, never a traceback."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", r"empty|no column|nothing"),
            ("pump,at,hum,flow,state\n", r"row|series|observation"),
            ("a,b,c\n1,2,3\n", r"series"),
            ("series,time,hum,label\na,0,1.0,x\na,1,2.0,x\nb,0,1.0,x\n", r"at least 2 classes"),
            ("series,time,hum,label\na,0,1.0,x\na,0,2.0,x\nb,0,1.0,y\n", r"row"),
            ("series,time,hum,label\na,0,1.0,x\na,1,2.0,\nb,0,1.0,y\n", r"label"),
            ("series,time,hum,label\na,0,loud,x\nb,0,1.0,y\n", r"hum"),
            ("series,time,hum,label\na,0,1.0,x\nb,0,1.0\n", r"row|column|line"),
        ],
    )
    def test_of_a_table(self, tmp_path, monkeypatch, capsys, text, message):
        (tmp_path / "t.csv").write_text(text)
        code, said = said_of_error(monkeypatch, capsys, "train", tmp_path / "t.csv", "--out", tmp_path / "m.sooner")
        assert code == 2
        assert re.search(message, said)
        assert said.startswith("error: ")
        assert not (tmp_path / "m.sooner").exists()

    @pytest.mark.parametrize("name", ["t.parquet", "t.npz", "t.npy", "t.ts", "t.mat"])
    def test_of_a_file_that_is_something_else(self, tmp_path, monkeypatch, capsys, name):
        (tmp_path / name).write_bytes(b"not at all what the suffix says")
        code, said = said_of_error(monkeypatch, capsys, "train", tmp_path / name)
        assert code == 2
        assert name in said

    def test_of_arrays_with_another_number_of_channels(self, home, tmp_path, monkeypatch, capsys):
        x, y = waves(12)
        np.savez(tmp_path / "t.npz", X=x[:, :1], y=y)
        code, said = said_of_error(monkeypatch, capsys, "evaluate", home / "pumps.sooner", tmp_path / "t.npz")
        assert code == 2
        assert "`observations` must be of shape (..., 2), got shape (12, 30, 1)" in said

    def test_of_a_set_that_nobody_knows(self, monkeypatch, capsys):
        code, said = said_of_error(monkeypatch, capsys, "train", "JapaneseVowls")
        assert code == 2
        assert "Did you mean 'JapaneseVowels'?" in said

    def test_of_a_model(self, home, tmp_path, monkeypatch, capsys):
        code, said = said_of_error(monkeypatch, capsys, "evaluate", tmp_path / "no.sooner", home / "new.csv")
        assert (code, "which is not there" in said) == (2, True)
        code, said = said_of_error(monkeypatch, capsys, "evaluate", home / "new.csv", home / "new.csv")
        assert (code, "must be a model of sooner" in said) == (2, True)

    def test_of_a_line_that_is_no_text(self, home, monkeypatch, capsys):
        sent = io.TextIOWrapper(
            io.BytesIO('{"pump": "a", "x": [1.0, 2.0]}\n{"pump": "\xe9"}\n'.encode("latin-1")), "utf-8"
        )
        monkeypatch.setattr("sys.stdin", sent)
        code, said = said_of_error(monkeypatch, capsys, "stream", home / "pumps.sooner")
        assert (code, said) == (
            2,
            "error: `line 2` must be text in utf-8, got other bytes. Use this encoding in the sender.",
        )

    def test_of_a_line_in_a_stream(self, home, monkeypatch, capsys):
        monkeypatch.setattr("sys.stdin", io.StringIO('{"pump": "a", "hum": 1.0}\n'))
        code, said = said_of_error(monkeypatch, capsys, "stream", home / "pumps.sooner")
        assert code == 2
        assert "`line 1` must be one with the channels 'hum', 'flow'" in said

    def test_of_an_order(self, home, monkeypatch, capsys):
        code, said = said_of_error(monkeypatch, capsys, "train", home / "pumps.csv", "--order", "ten")
        assert code == 2
        assert "`--order` must be a whole number, 'full' or 'auto', got 'ten'" in said


class TestOddNames:
    def test_brackets_in_names_are_no_markup(self, tmp_path):
        table = tmp_path / "runs [red].csv"
        write_table(table, 30, 1, columns=("series", "time", "hum", "flow", "label"))
        table.write_text(table.read_text().replace("calm", "[/calm]").replace("fast", "[fast]"))
        out = tmp_path / "new folder" / "m[bold].sooner"
        said = run("train", table, "--out", out)
        assert "m[bold].sooner" in said.replace("\n", "")
        assert "[/calm]" in run("evaluate", out, table, "--out", tmp_path / "r")

    def test_a_folder_is_no_file_to_write(self, home, tmp_path, monkeypatch, capsys):
        for out in (tmp_path, "."):
            code, said = said_of_error(monkeypatch, capsys, "train", home / "pumps.csv", "--out", out)
            assert (code, "`--out` must be the name of a file" in said) == (2, True)

    def test_a_matrix_of_thresholds_and_infinity_are_json(self, home, tmp_path):
        clf = sooner.load(home / "pumps.sooner")
        clf.threshold = np.full((3, 3), 1.5)
        clf.save(tmp_path / "m.sooner")
        found = json.loads(run("threshold", tmp_path / "m.sooner", "--json"))
        assert found["threshold"] == (1.5 - 1.5 * np.eye(3)).tolist()
        found = json.loads(run("evaluate", tmp_path / "m.sooner", home / "new.csv", "--out", tmp_path, "--json"))
        assert found["report"] is None
        found = run(
            "evaluate", home / "pumps.sooner", home / "new.csv", "--threshold", "inf", "--out", tmp_path, "--json"
        )
        assert json.loads(found, parse_constant=pytest.fail)["threshold"] == "inf"

    def test_a_group_of_the_training_is_not_asked_for_again(self, tmp_path):
        write_table(tmp_path / "a.csv", 36, 1, columns=("series", "time", "hum", "flow", "label"))
        lines = (tmp_path / "a.csv").read_text().splitlines()
        owner = [f"{line},{int(line.split(',')[0][1:]) // 2}" for line in lines[1:]]
        (tmp_path / "b.csv").write_text("\n".join([lines[0] + ",person", *owner]))
        run("train", tmp_path / "b.csv", "--group", "person", "--out", tmp_path / "m.sooner", "--quiet")
        found = json.loads(run("evaluate", tmp_path / "m.sooner", tmp_path / "a.csv", "--out", tmp_path, "--json"))
        assert found["series"] == 36


def test_the_demo_trains_compares_and_writes_a_report(tmp_path):
    found = json.loads(run("demo", "--out", tmp_path, "--max-epochs", "1", "--json"))
    errors = found["error_at"]
    assert all(errors["sequential test"][time] < errors["fixed-time test"][time] for time in ("4", "8", "12"))
    assert found["reached"]["error"] < 0.2
    assert (tmp_path / "report.html").exists()
    assert sooner.load(tmp_path / "digits.sooner").threshold > 0


def test_a_promise_is_made_kept_in_the_file_and_said_by_every_verb(home, tmp_path):
    write_table(tmp_path / "calibration.csv", 300, 7)
    model, sentence = (
        tmp_path / "m.sooner",
        "promised: balanced error at most 10% with 95% confidence, certified on 300 series",
    )
    model.write_bytes((home / "pumps.sooner").read_bytes())
    certify = ("threshold", model, "--max-error", "0.1", "--confidence", "0.95", "--on", tmp_path / "calibration.csv")
    assert sentence in run(*certify)
    found = json.loads(run(*certify, "--json", "--quiet"))
    assert found["promise"]["sentence"].startswith(sentence)
    assert found["promise"]["bound"] == "exact binomial tail of the pooled count (Hoeffding 1956)"
    assert sentence in run("threshold", model)
    assert sentence in run("evaluate", model, home / "new.csv", "--out", tmp_path / "report")
    assert sentence in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert sentence in run("score", model, home / "new.csv", tmp_path / "out.parquet")
    line = json.dumps({"series": "a", "hum": 1.0, "flow": 2.0, "end": True}) + "\n"
    streamed = heard("stream", model, "--series", "series", stdin=line)
    assert streamed.stderr.startswith(sentence)
    assert json.loads(streamed.stdout)["series"] == "a"
    # Another threshold or a deadline is not what was certified.
    assert "promised" not in heard("stream", model, "--series", "series", "--threshold", "1", stdin=line).stderr
    with_deadline = ("--deadline", "5")
    assert "without a deadline" in heard("stream", model, "--series", "series", *with_deadline, stdin=line).stderr
    assert "without a deadline" in run("score", model, home / "new.csv", tmp_path / "out.parquet", *with_deadline)
    assert "promised" not in run("evaluate", model, home / "new.csv", "--threshold", "1", "--out", tmp_path / "report")
    estimated = heard("threshold", model, "--max-error", "0.1")
    assert "promised" not in estimated.stdout
    assert "An estimate, not a promise" in estimated.stderr
    assert "promised" not in run("threshold", model)


def test_a_calibration_share_is_kept_by_training_and_certifies(home, tmp_path, monkeypatch, capsys):
    write_table(tmp_path / "many.csv", 198, 3)
    model = tmp_path / "m.sooner"
    names = ("--series", "pump", "--time", "at", "--label", "state", "--out", model, "--quiet")
    said = run("train", tmp_path / "many.csv", *names, "--calibration-share", "0.5")
    assert "Kept for calibration: 99 series." in said
    ask = ("threshold", model, "--max-error", "0.2", "--confidence", "0.9", "--risk", "error")
    assert "promised: error at most 20% with 90% confidence, certified on 99 series" in run(*ask)
    code, said = said_of_error(monkeypatch, capsys, *ask[:3], "0.01", *ask[4:])
    assert code == 2
    assert "with these 99 series the least level is" in said
    code, said = said_of_error(monkeypatch, capsys, "threshold", home / "pumps.sooner", *ask[2:])
    assert code == 2
    assert said.startswith("error: `--on` must be calibration series for a promise, got None.")
    assert "fit with --calibration-share 0.2 (`sooner train`)" in said
    code, said = said_of_error(monkeypatch, capsys, "stream", home / "pumps.sooner", "--at-end", "set")
    assert code == 2
    assert said.startswith("error: `calibration series` must be known for label sets and alarms, got None.")
    code, said = said_of_error(
        monkeypatch, capsys, "threshold", model, "--max-error", "0.1", "--on", tmp_path / "many.csv"
    )
    assert code == 2
    assert said.startswith("error: `--on` must be given with --confidence and without SOURCE, got no confidence.")
    code, said = said_of_error(monkeypatch, capsys, "threshold", model, "--set", "3", "--confidence", "0.9")
    assert (code, said.partition(",")[0]) == (2, "error: `--max-error` must be given alone with a confidence")


def test_warnings_of_label_sets_are_one_sentence(home, tmp_path, monkeypatch, capsys):
    model = tmp_path / "m.sooner"
    sooner.load(home / "pumps.sooner").calibrate(*waves(30, seed=9)).save(model)
    monkeypatch.setattr("sys.argv", ["sooner", "stream", str(model), "--at-end", "set", "--coverage", "0.99"])
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with warnings.catch_warnings(action="always"), pytest.raises(SystemExit):
        main()
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("warning: Every label set is full: a coverage of 99% needs at least 99 calibration series")
    assert "FullSets" not in said


def test_an_evaluation_without_a_curve_says_that_there_is_no_report(home, tmp_path):
    clf = sooner.load(home / "pumps.sooner")
    clf.threshold = NotBefore(MSPRT(2.0), 3)
    clf.save(tmp_path / "m.sooner")
    found = heard("evaluate", tmp_path / "m.sooner", home / "new.csv", "--out", tmp_path / "report")
    assert "balanced error" in found.stdout
    assert "No report was written: NotBefore(" in found.stderr
    assert not (tmp_path / "report").exists()
