import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "examples"
SAID = {
    "01_first_decision": "270 series fitted with 'rocket', 9 classes",
    "02_the_dial": "a matrix: each class at most 10 % wrong",
    "03_live_streams": "restored from",
    "04_own_table": "450 series, channels ('hum', 'flow'), classes ['fine', 'leak', 'worn']",
    "05_exact_scores": "5,000 series with exact scores",
    "06_recurrent_model": "balanced error at a mean time of",
    "07_any_classifier": "naive Bayes (prefix)",
    "08_report": "page: report.html",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs an example in an empty folder, in this process: a fresh one would spend most of its time on imports."""

    def run_example(name: str, *words: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
        with torch.random.fork_rng():
            runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def test_every_example_is_run_here_and_none_is_missing_in_the_numbering() -> None:
    names = sorted(path.stem for path in FOLDER.glob("*.py"))
    assert names == sorted(SAID)
    assert [int(name[:2]) for name in names] == list(range(1, len(names) + 1))


@pytest.mark.parametrize("name", SAID)
def test_an_example_says_what_it_shows_in_under_60_lines(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert len(text.splitlines()) < 60


@pytest.mark.parametrize("name", sorted(SAID.keys() - {"04_own_table"}))
def test_an_example_runs_and_writes_no_file_unasked(name: str, run: Callable[..., str], tmp_path: Path) -> None:
    assert SAID[name] in run(name)
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_one_s_own_is_written_where_it_is_asked_for(run: Callable[..., str], tmp_path: Path) -> None:
    assert SAID["04_own_table"] in run("04_own_table", ".")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new_pumps.csv", "pumps.csv", "pumps.sooner"]
    header, first = (tmp_path / "pumps.csv").read_text(encoding="utf-8").splitlines()[:2]
    assert header == "pump,minute,hum,flow,state"
    assert first.startswith("pump-0,1,")
