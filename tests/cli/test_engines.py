"""The engines of the command line, as far as a person gets with them by mistake."""

import sys

import pytest

from sooner.cli import main

NOBODY = "127.0.0.1:1"
ALONE = "must be given together with --engine ray, got alone. Give both options."
MISTAKES = {
    "a model that is fitted in one go": (
        ["train", "digits", "--engine", "ray"],
        "`--engine` must be 'local' for the model 'rocket', got 'ray'. It is fitted in one go, by this process. "
        "Take --model recurrent to train on a cluster.",
    ),
    "workers of nobody": (["train", "digits", "--workers", "2"], f"`--workers` {ALONE}"),
    "an address of nobody": (["reproduce", "sat_nmnist_h", "--address", "auto"], f"`--address` {ALONE}"),
    "a training without the extra": (
        ["train", "digits", "--model", "recurrent", "--engine", "ray"],
        '`--engine` must be one that is installed, got no package `ray`. Install it: pip install "sooner[ray]".',
    ),
    "options of another engine": (
        ["stream", "m.sooner", "--source", "in"],
        "`--source` must be given together with --engine spark, got alone. Give both options.",
    ),
    "live series of an engine with a journal": (
        ["stream", "MODEL", "--engine", "spark", "--journal", "j"],
        "`--journal` must be left out with --engine, got j. An engine keeps its own state.",
    ),
    "Spark without a sink": (
        ["stream", "MODEL", "--engine", "spark", "--source", "in"],
        "`--sink` must be given with --engine spark, got none. It is the name of a folder.",
    ),
    "Spark without the extra": (
        ["stream", "MODEL", "--engine", "spark", "--source", "in", "--sink", "out"],
        '`--engine` must be one that is installed, got no package `pyspark`. Install it: pip install "sooner[spark]".',
    ),
    "a plan without the extra": (
        ["reproduce", "sat_nmnist_h", "--engine", "ray"],
        '`--engine` must be one that is installed, got no package `ray`. Install it: pip install "sooner[ray]".',
    ),
}


def said_by(words, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sooner", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    return " ".join(capsys.readouterr().err.split()).partition("error: ")[2]


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_gets_this_sentence(case, monkeypatch, capsys, tmp_path, home):
    monkeypatch.chdir(tmp_path)
    if "extra" in case:
        for package in ("ray", "pyspark"):
            monkeypatch.setitem(sys.modules, package, None)
    words, sentence = MISTAKES[case]
    words = [str(home / "pumps.sooner") if word == "MODEL" else word for word in words]
    assert said_by(words, monkeypatch, capsys) == sentence


@pytest.mark.ray
@pytest.mark.parametrize("verb", ["train", "tune", "reproduce"])
def test_an_address_where_nobody_answers_gets_a_sentence_before_anything_is_done(verb, monkeypatch, capsys, tmp_path):
    pytest.importorskip("ray", reason="no ray: install sooner[ray]")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text('[search]\n"optimizer.lr" = [1e-3, 1e-2]\n')
    words = {"train": ["digits"], "tune": ["digits", "--settings", "s.toml"], "reproduce": ["sat_nmnist_h"]}[verb]
    said = said_by([verb, *words, "--engine", "ray", "--address", NOBODY], monkeypatch, capsys)
    assert said.startswith(f"No cluster answers at '{NOBODY}'")
