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
import contextlib, io, json, sys
for package in json.loads(sys.argv[1]):
    sys.modules[package] = None
from sooner.cli import main
ends = []
for words in json.loads(sys.argv[2]):
    sys.argv, said = ["sooner", *words], io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main()
            code = 0
        except SystemExit as left:
            code = left.code
    ends.append((code or 0, " ".join(said.getvalue().split())))
print(json.dumps(ends))
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


SAID = {
    "--help": "",
    "tune digits --settings s.toml": "`tuning` must be done with Optuna, got no package `optuna`. Install it: pip install "
    '"sooner[tune]".',
    "reproduce sat_nmnist_h": 'pip install "sooner[lab]".',
    "demo": '`demo` must be drawn with plotly, got no package `plotly`. Install it: pip install "sooner[report]".',
}


def test_without_the_extras_a_verb_runs_or_names_its_extra(tmp_path):
    (tmp_path / "s.toml").write_text('[search]\n"optimizer.lr" = [1e-3, 1e-2]\n')
    packages = [package for packages in EXTRAS.values() for package in packages]
    words = [typed.split() for typed in SAID]
    command = [sys.executable, "-c", WITHOUT, json.dumps(packages), json.dumps(words)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert ended.returncode == 0, ended.stderr
    for (code, said), sentence in zip(json.loads(ended.stdout.splitlines()[-1]), SAID.values(), strict=True):
        assert sentence in said
        assert code == (2 if sentence else 0), said


def test_what_an_optional_package_lacks_itself_is_no_matter_of_extras():
    with pytest.raises(ModuleNotFoundError, match="inner"), optional("x", "y"):
        raise ModuleNotFoundError("no inner", name="inner")
    with pytest.raises(InvalidArgument, match=r"`x` must be y, got no package `aeon`"), optional("x", "y"):
        raise ModuleNotFoundError("no aeon.data", name="aeon.data")
    refuse_missing("ray", "x", "y")
