"""The command line inside the process of the tests, where it costs no start."""

import csv

import pytest
from typer.testing import CliRunner

from sooner.cli import app, main
from waves import waves


def run(*arguments, code=0, stdin=None):
    return heard(*arguments, code=code, stdin=stdin).stdout


def heard(*arguments, code=0, stdin=None, columns=100):
    """What goes to the standard output, and what beside it."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], input=stdin, env={"COLUMNS": str(columns)})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def said_of_error(monkeypatch, capsys, *arguments):
    """What `main` says, and its exit code."""
    monkeypatch.setattr("sys.argv", ["sooner", *(str(argument) for argument in arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    said = " ".join(capsys.readouterr().err.split())
    assert "Traceback" not in said
    return caught.value.code, said


def write_table(path, series, seed, *, columns=("pump", "at", "hum", "flow", "state")):
    x, y = waves(series, seed=seed)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        for place in range(series):
            for t in range(x.shape[2]):
                rows.writerow([f"p{place}", t, x[place, 0, t], x[place, 1, t], y[place]][: len(columns)])
    return x, y
