import doctest
import re
from pathlib import Path

import pytest
import typer.main

from sooner.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TOLD = [page for page in PAGES if ">>> " in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", TOLD, ids=lambda page: page.stem)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert result.attempted > 0
    assert result.failed == 0


def test_the_reference_of_the_command_line_names_every_verb_and_option_and_no_other() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    verbs = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    below = verbs.pop("data").commands
    known = {"--help", "--version", "--install-completion", "--show-completion"}
    for name, verb in {**verbs, **{f"data {name}": verb for name, verb in below.items()}}.items():
        assert f"sooner {name}" in text
        known |= {option for each in verb.params for option in each.opts if option.startswith("-")}
    named = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", text.replace("tail -f", "")))
    assert named == known


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_pictures_and_pages_that_a_page_names_are_there(page: Path) -> None:
    named = re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", page.read_text(encoding="utf-8"))
    assert [name for name in named if not (page.parent / name).exists()] == []
