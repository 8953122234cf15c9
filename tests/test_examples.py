import re
import runpy
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from command import run as command_line

FOLDER = Path(__file__).parents[1] / "examples"
README = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
SAID = {
    "01_first_decision": "270 series fitted with 'rocket', 9 classes",
    "02_the_dial": "a matrix: each class at most 10% wrong",
    "03_live_streams": "restored from",
    "04_own_table": "450 series, channels ('hum', 'flow'), classes ['fine', 'leak', 'worn']",
    "05_exact_scores": "5,000 series with exact scores",
    "06_recurrent_model": "balanced error at a mean time of",
    "07_any_classifier": "naive Bayes (prefix)",
    "08_report": "page: report.html",
    "09_costs_that_change": "Missing class 1 costs 20, and the first five observations are free: MSPRT(threshold=",
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


def test_the_commands_of_the_readme_run_one_after_the_other(run: Callable[..., str], tmp_path: Path) -> None:
    assert "`python examples/04_own_table.py .`" in README
    assert SAID["04_own_table"] in run("04_own_table", ".")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new_pumps.csv", "pumps.csv", "pumps.sooner"]
    header, first = (tmp_path / "pumps.csv").read_text(encoding="utf-8").splitlines()[:2]
    assert header == "pump,minute,hum,flow,state"
    assert first.startswith("pump-0,1,")
    # A part of the pumps will do: whether a command runs does not depend on how many there are.
    for name, last in (("pumps.csv", 90), ("new_pumps.csv", 12)):
        lines = (tmp_path / name).read_text(encoding="utf-8").partition(f"\npump-{last},")[0]
        (tmp_path / name).write_text(lines + "\n", encoding="utf-8")
    commands = re.findall(r"^ {4}sooner (.+)$", README, flags=re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["train", "threshold", "evaluate", "stream", "score"]
    for command in commands:
        words, _, source = command.partition(" #")[0].partition(" < ")
        stdin = Path(source.strip()).read_text(encoding="utf-8") if source else None
        said = command_line(*shlex.split(words), stdin=stdin)
    assert "decided.parquet: 12 series" in said.replace("\n", "")
    assert {"report", "decided.parquet"} < {path.name for path in tmp_path.iterdir()}


def test_targets_of_make_that_the_readme_names_are_there() -> None:
    targets = set(re.findall(r"\bmake ([a-z-]+)(?:`| {2,}#|$)", README, flags=re.MULTILINE))
    assert {"demo", "test"} <= targets
    makefile = (FOLDER.parent / "Makefile").read_text(encoding="utf-8")
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, flags=re.MULTILINE)] == []
