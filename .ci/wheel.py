"""Builds the wheel, installs it without extras into an empty environment outside of the tree, and takes the README's first
table through it there (`make wheel-check`). Then the demo, whose page needs the extra `report`."""

import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).parents[1]


def run(*command: object, cwd: str, stdin: pathlib.Path | None = None, code: int = 0) -> str:
    print("+", *command, flush=True)
    with open(stdin or "/dev/null") as lines:
        ended = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            stdin=lines,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    assert ended.returncode == code, ended.stdout
    return " ".join(ended.stdout.split())


with tempfile.TemporaryDirectory() as folder:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    venv.create(f"{folder}/venv", with_pip=True)
    (wheel,) = pathlib.Path(folder).glob("*.whl")
    python, sooner = f"{folder}/venv/bin/python", f"{folder}/venv/bin/sooner"
    install = (python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    run(*install, wheel, cwd=folder)
    run(python, ROOT / "examples" / "04_own_table.py", ".", cwd=folder)
    columns = ("--series", "pump", "--time", "minute", "--label", "state")
    run(sooner, "train", "pumps.csv", *columns, "--out", "pumps.sooner", cwd=folder)
    run(sooner, "threshold", "pumps.sooner", "--max-error", "0.05", cwd=folder)
    assert "sooner[report]" in run(sooner, "evaluate", "pumps.sooner", "new_pumps.csv", cwd=folder)
    decided = run(
        sooner, "stream", "pumps.sooner", "--format", "csv", cwd=folder, stdin=pathlib.Path(folder, "new_pumps.csv")
    )
    assert decided.count('"crossed"') == 600, decided[-500:]
    assert "sooner[report]" in run(sooner, "demo", "--out", "demo", cwd=folder, code=2)
    run(*install, f"{wheel}[report]", cwd=folder)
    run(sooner, "demo", "--max-epochs", "2", "--out", "demo", cwd=folder)
    assert pathlib.Path(folder, "demo", "report.html").stat().st_size > 1e6
