import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def run(name: str, *words: str, folder: Path) -> str:
    program = [sys.executable, str(FOLDER / f"{name}.py"), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


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
def test_an_example_runs_and_writes_no_file_unasked(name: str, tmp_path: Path) -> None:
    assert SAID[name] in run(name, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_one_s_own_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    assert SAID["04_own_table"] in run("04_own_table", ".", folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new_pumps.csv", "pumps.csv", "pumps.sooner"]
    header, first = (tmp_path / "pumps.csv").read_text(encoding="utf-8").splitlines()[:2]
    assert header == "pump,minute,hum,flow,state"
    assert first.startswith("pump-0,1,")
