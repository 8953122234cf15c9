"""Bad input to every verb: the sentence names what was typed, an option or a column, and no argument of Python."""

import io
import re

import numpy as np
import pytest
import typer.main

from command import said_of_error
from sooner.cli import app
from sooner.cli.sentences import cli_message, with_options
from sooner.errors import InvalidArgument

ROLES = ["--series", "pump", "--time", "at", "--label", "state"]
NAMED = "--series series --time time --label label --channels hum,hum2"
EMPTY = (
    "`empty.csv` must be a table of finite numbers in column 'hum', got nothing at row 1 (series 'a', time 0). "
    "Fill missing values in"
)
SAID = {
    "train pumps.csv": "`--series`, `--time`, `--label` must be columns of pumps.csv, "
    "got none called 'series', 'series_id', 'id'; none called 'time', 't', 'timestamp'; "
    "none called 'label', 'class', 'target', 'y'. "
    "It has the columns 'pump', 'at', 'hum', 'flow', 'state': name them by --series, --time, --label.",
    "train pumps.csv ROLES --channels at": "`--time`, `--channels` must be different columns, got 'at' twice.",
    "train pumps.csv ROLES --group who --ignore note": "`--group`, `--ignore` must be columns of pumps.csv, got 'who'; 'note'.",
    "train pumps.csv ROLES --model roket": "`--model` must be one of 'auto', 'earliest',",
    "train pumps.csv ROLES --model recurrent --loss lsell": "`--loss` must be one of 'barr',",
    "train pumps.csv ROLES --rule zzz": "`--rule` must be one of 'calimera',",
    "train pumps.csv ROLES --seed -1": "`--seed` must be at least 0, got -1.0.",
    "train pumps.csv ROLES --out .": "`--out` must be the name of a file, got the folder ..",
    "train empty.csv": f"{EMPTY}, or pass --missing mask.",
    "train text.csv": "`--channels` must be columns of numbers in text.csv, got text ('q' at row 1) in 'note'. "
    "Leave it out by --ignore, or name its role: --series, --time, --label or --group.",
    "train two.npz": "`labels` must be a class with at least 2 series, got 2 series of 2 classes.",
    "train nobody": "`SOURCE` must be a set of the UCR or UEA archives, got 'nobody'.",
    "train digits --ignore note": "`--ignore` must be left out for digits, got 'note'. Only tables have columns.",
    "train digits --gaps channel": '`--gaps` must be "none" for digits,',
    "evaluate nobody.sooner pumps.csv": "`MODEL` must be a .sooner file, got nobody.sooner, which is not there.",
    "evaluate m.sooner pumps.csv --threshold -1": "`--threshold` must be at least 0, got -1.0.",
    "evaluate m.sooner pumps.csv --channels hum": "`--channels` must be 2 columns of numbers, got ['hum'].",
    "evaluate m.sooner pumps.csv --out pumps.csv": "`pumps.csv` must be a folder, or the name of a new one, got a file.",
    f"evaluate m.sooner empty.csv {NAMED}": f"{EMPTY}, or pass --missing mask (`sooner train`).",
    "threshold m.sooner --max-error 2": "`--max-error` must be in 0..1, got 2.0.",
    "threshold m.sooner --max-mean-time 0.5": "No threshold reaches `--max-mean-time` of 0.5 on these data",
    "threshold m.sooner --cost-of-waiting -1": "`--cost-of-waiting` must be at least 0, got -1.0.",
    "threshold m.sooner --set -1": "`--set` must be at least 0, got -1.0.",
    "threshold m.sooner --set 1 --max-error 0.1": "`--max-error`, `--set` must be given alone, got several targets.",
    "stream m.sooner --threshold -1": "`--threshold` must be at least 0, got -1.0.",
    "stream m.sooner": "`line 1` must be one with the channels 'hum', 'flow', got ",
    "serve m.sooner --threshold -1": "`--threshold` must be at least 0, got -1.0.",
    "serve m.sooner --token-file nobody.txt": "`nobody.txt` must be there, got no such file or folder. Check the name.",
    "serve m.sooner --tls-key nobody.pem": "`--tls-certificate` must be given together with its key, got only one of them.",
    "score m.sooner pumps.csv o.csv": "`OUT` must be a Parquet file, got o.csv.",
    "score m.sooner pumps.csv o.parquet --workers 2": "`--workers` must be given together with --engine ray, got alone.",
    "score m.sooner pumps.csv o.parquet --series label": "`--series` must be a column of pumps.csv, got 'label'.",
    "tune two.npz --settings s.toml": "`labels` must be those of at least 2 series of one class to be split,",
    "tune pumps.csv --settings s.toml --series id": "`--series`, `--time`, `--label` must be columns of pumps.csv, got 'id';",
    "reproduce nobody": "`NAME` must be one of ",
    "reproduce sat_nmnist_h --profile gpu": "`--profile` must be one of 'cpu', 'paper', got 'gpu'.",
    "bench pumps.csv": "`pumps.csv` must be a model of sooner,",
    "data fetch mnst": "`NAME` must be one of 'mnist', got 'mnst'.",
    "data show digits --seed -1": "`--seed` must be at least 0, got -1.0.",
    "data show nmnist --folder pumps.csv": "`--folder` must be a folder, got the file pumps.csv.",
    "data features ucf101 --videos a --splits b --backbone c --out d": "`--backbone` must be a file of ",
    "demo --seed -1": "`--seed` must be at least 0, got -1.0.",
}


def verbs():
    """Each verb by its name, those of `data` included."""
    known = dict(typer.main.get_command(app).commands)
    below = known.pop("data").commands
    return {**known, **{f"data {name}": verb for name, verb in below.items()}}


@pytest.fixture(scope="module")
def folder(home, tmp_path_factory):
    place = tmp_path_factory.mktemp("typed")
    for source, target in (("pumps.csv", "pumps.csv"), ("pumps.sooner", "m.sooner")):
        (place / target).write_bytes((home / source).read_bytes())
    (place / "empty.csv").write_text("series,time,hum,hum2,label\na,0,,1,calm\nb,0,2.0,1,fast\n")
    (place / "text.csv").write_text("series,time,hum,note,label\na,0,1,q,x\nb,0,2.0,q,y\n")
    (place / "s.toml").write_text('[search]\n"optimizer.lr" = [1e-2, 1e-3]\n')
    np.savez(place / "two.npz", X=np.zeros((2, 1, 5)), y=np.array(["a", "b"]))
    return place


@pytest.mark.parametrize("typed", SAID)
def test_a_sentence_names_what_was_typed(typed, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO('{"pump": "a"}\n'))
    words = [word for each in typed.split() for word in (ROLES if each == "ROLES" else [each])]
    code, said = said_of_error(monkeypatch, capsys, *words)
    assert code == 2
    said = said.partition("error: ")[2]
    assert said.startswith(SAID[typed])
    arguments = {param.name for verb in verbs().values() for param in verb.params} - {"labels"}
    assert {name for name in re.findall("`([^`]+)`", said) if name in arguments} == set()
    assert not re.search(r"(?<![\w(])[a-z_]+=", said)


def test_every_verb_that_can_fail_has_been_tried():
    tried = {" ".join(typed.split()[: 2 if typed.startswith("data") else 1]) for typed in SAID}
    assert tried == verbs().keys() - {"data list"}


def test_settings_are_called_by_an_option_only_if_it_was_typed():
    error = InvalidArgument("training.workers", "at most 4", 8, "Ask for fewer.")
    command = typer.main.get_command(app)
    assert cli_message(error, command, ["train", "x.csv", "--workers", "8"]).startswith("`--workers` must be at most 4")
    assert cli_message(error, command, ["train", "x.csv", "--workers=8"]).startswith("`--workers` must be at most 4")
    assert cli_message(error, command, ["train", "x.csv"]).startswith("`training.workers` must be at most 4")


def test_calls_and_quoted_text_stay_as_they_are():
    sentence = """In Python EarlyClassifier(model='prefix') fits one, got 'series=3' and "time=4"."""
    assert with_options(sentence, {"model": "--model", "series": "--series", "time": "--time"}, {}) == sentence
