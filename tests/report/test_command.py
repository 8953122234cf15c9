"""The page that `sooner evaluate` writes shows what `sooner evaluate --threshold` prints."""

import json

import pytest
from typer.testing import CliRunner

from report.reading import enter, last_position, slide, threshold_of
from sooner import EarlyClassifier
from sooner.cli import app


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from sooner.data import archives

    path = tmp_path_factory.mktemp("model") / "vowels.sooner"
    EarlyClassifier().fit(archives.load("JapaneseVowels").train).save(path)
    return path


def printed(model, *options):
    arguments = ["evaluate", str(model), "JapaneseVowels", "--out", str(model.parent), "--json", *options]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def shown(page):
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    values = ("balanced-error", "mean-time", "forced", "plain-error")
    return [float(page.get_by_test_id(name).get_attribute("data-value")) for name in values]


def test_the_slider_moves_the_numbers_to_those_that_the_command_prints(model, show):
    first = printed(model)
    page = show(model.parent / "report.html")
    assert shown(page) == [first[key] for key in ("error", "mean_time", "forced", "error_rate")]
    enter(page, "2.5")
    there = printed(model, "--threshold", "2.5")
    assert shown(page) == [there[key] for key in ("error", "mean_time", "forced", "error_rate")]
    slide(page, last_position(page) // 2)
    middle = printed(model, "--threshold", repr(threshold_of(page)))
    assert shown(page) == [middle[key] for key in ("error", "mean_time", "forced", "error_rate")]
    assert first["mean_time"] != there["mean_time"]
