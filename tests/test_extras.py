"""Packages that are no part of the core: what each verb says without them, and that the core does without."""

import itertools
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sooner.errors import InvalidArgument
from sooner.extras import EXTRAS, optional, refuse_missing

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WITHOUT = """
import json, sys
for package in json.loads(sys.argv[1]):
    sys.modules[package] = None
sys.argv = ["sooner", *sys.argv[2:]]
from sooner.cli import main
main()
"""


def test_the_core_needs_at_most_ten_packages_and_extras_name_the_others():
    assert len(PROJECT["dependencies"]) <= 10
    assert {extra: sorted(packages) for extra, packages in EXTRAS.items()} == {
        extra: sorted(_needs(extra)) for extra in EXTRAS
    }


def _needs(extra):
    for need in PROJECT["optional-dependencies"][extra]:
        if need.startswith("sooner["):
            yield from itertools.chain.from_iterable(map(_needs, need[7:-1].split(",")))
        else:
            yield need.partition(">")[0].partition("[")[0]


def without_extras(*words, folder):
    packages = json.dumps([package for packages in EXTRAS.values() for package in packages])
    command = [sys.executable, "-c", WITHOUT, packages, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--help"], ""),
        (
            ["tune", "digits", "--settings", "s.toml"],
            '`tuning` must be done with Optuna, got no package `optuna`. Install it: pip install "sooner[tune]".',
        ),
        (["reproduce", "sat_nmnist_h"], 'pip install "sooner[lab]".'),
        (
            ["demo"],
            '`demo` must be drawn with plotly, got no package `plotly`. Install it: pip install "sooner[report]".',
        ),
    ],
)
def test_without_the_extras_a_verb_runs_or_names_its_extra(words, sentence, tmp_path):
    (tmp_path / "s.toml").write_text('[search]\n"optimizer.lr" = [1e-3, 1e-2]\n')
    ended = without_extras(*words, folder=tmp_path)
    assert "Traceback" not in ended.stderr
    assert sentence in " ".join(ended.stderr.split())
    assert ended.returncode == (2 if sentence else 0), ended.stderr


def test_what_an_optional_package_lacks_itself_is_no_matter_of_extras():
    with pytest.raises(ModuleNotFoundError, match="inner"), optional("x", "y"):
        raise ModuleNotFoundError("no inner", name="inner")
    with pytest.raises(InvalidArgument, match=r"`x` must be y, got no package `aeon`"), optional("x", "y"):
        raise ModuleNotFoundError("no aeon.data", name="aeon.data")
    refuse_missing("ray", "x", "y")
